"""What people see of the card's time."""

from __future__ import annotations

import re

from habana_tf.card.clock.counted import LaunchCounts
from habana_tf.card.clock.report import Between, CardTimeReport, LaunchedRecipe
from habana_tf.card.clock.shown import MOST


def recipe(number: int, each: float | None, launches: int = 2, why: str = "") -> LaunchedRecipe:
    return LaunchedRecipe(number, f"cluster_{number}", "4 ops", ((8, 16), (16,), ()), launches, 0.5, each, 0.25,
                          "memory" if each else "", why)  # fmt: skip


def report(*recipes: LaunchedRecipe) -> CardTimeReport:
    between = (Between("the graph pass", 3, 0.25), Between("all else", None, 1.5))
    return CardTimeReport(
        "gaudi2", 1, recipes, 0.0, 0.0, 0.0, 3.0, between, (("Unique", 2), ("Where", 1)), LaunchCounts(0, 0)
    )


def test_each_recipe_with_its_launches_and_times() -> None:
    shown = str(report(recipe(1, 0.001), recipe(2, None, why="nobody knows")))
    line = next(line for line in shown.splitlines() if "cluster_1" in line)
    assert all(words in line for words in ("1.00 ms", "2.00 ms", "25.0%", "memory")) and "on 8x16 16 ..." in shown
    assert "nobody knows" in next(line for line in shown.splitlines() if "cluster_2" in line)
    assert "2 launches are not predicted" in shown
    assert "2 Unique, Where" in shown and "0.25 s" in shown and "1.75 s" in shown


def test_many_recipes_are_counted_and_not_shown() -> None:
    shown = str(report(*(recipe(k, 0.001) for k in range(MOST + 3))))
    assert re.search(r"and 3 more +6 +6.00 ms", shown) and f"cluster_{MOST}" not in shown


def test_what_takes_no_time_is_one_line() -> None:
    nothing = [LaunchedRecipe(k, "Fill", "Fill", (), 5, 0.0, 0.0, 0.0, "", "") for k in range(4)]
    shown = str(report(recipe(1, 0.001), *nothing))
    assert "Fill" not in shown and re.search(r"and 4 more +20 +no time", shown) and "0.0 " not in shown


def test_names_are_no_markup_of_a_page() -> None:
    shown = report(LaunchedRecipe(1, "<b>", "", (), 1, 0.0, 1.0, 1.0, "MME", ""))
    assert "<b>" not in shown._repr_html_() and "&lt;b&gt;" in shown._repr_html_()
