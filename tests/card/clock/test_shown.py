"""What people see of the card's time."""

from __future__ import annotations

import pytest

from habana_tf.card.clock.counted import LaunchCounts
from habana_tf.card.clock.report import Between, CardTimeReport, LaunchedRecipe
from habana_tf.card.clock.shown import MOST, duration


def recipe(number: int, each: float | None, launches: int = 2, why: str = "") -> LaunchedRecipe:
    return LaunchedRecipe(number, f"cluster_{number}", "4 ops", ((8, 16), (16,), ()), launches, 0.5, each, 0.25,
                          "memory" if each else "", why)  # fmt: skip


def report(*recipes: LaunchedRecipe) -> CardTimeReport:
    between = (Between("the graph pass", 3, 0.25), Between("all else", None, 1.5))
    return CardTimeReport(
        "gaudi2", 1, recipes, 0.0, 0.0, 0.0, 3.0, between, (("Unique", 2), ("Where", 1)), LaunchCounts(0, 0)
    )


@pytest.mark.parametrize("seconds, said", [(1.5, "1.50 s"), (0.00125, "1.25 ms"), (12e-6, "12.0 us"), (0.0, "0.0 us")])
def test_times_have_the_unit_that_suits(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_each_recipe_with_its_launches_and_times() -> None:
    shown = str(report(recipe(1, 0.001), recipe(2, None, why="nobody knows")))
    line = next(line for line in shown.splitlines() if "cluster_1" in line)
    assert all(words in line for words in ("8x16 16 ...", "1.00 ms", "2.00 ms", "25.0%", "memory"))
    assert "nobody knows" in next(line for line in shown.splitlines() if "cluster_2" in line)
    assert "2 launches are not predicted" in shown
    assert "2 Unique, Where" in shown and "250.00 ms" in shown and "1.75 s" in shown


def test_many_recipes_are_counted_and_not_shown() -> None:
    shown = str(report(*(recipe(k, 0.001) for k in range(MOST + 3))))
    assert "and 3 more, 6 launches, 6.00 ms" in shown and f"cluster_{MOST}" not in shown


def test_names_are_no_markup_of_a_page() -> None:
    shown = report(LaunchedRecipe(1, "<b>", "", (), 1, 0.0, 1.0, 1.0, "MME", ""))
    assert "<b>" not in shown._repr_html_() and "&lt;b&gt;" in shown._repr_html_()
