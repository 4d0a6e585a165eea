"""The band of a real card's compilation holds every published program of the page, and is no wider than they are."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from habana_tf.resolver.real_card_compilation import seconds
from habana_tf.resolver.recompilations import History, RecompilationReport

PAGE = Path(__file__).parents[2] / "docs" / "recompilations.md"


def published() -> list[tuple[int, float, float]]:
    """(ops, seconds, ms an op) of the programs in the page's table."""
    rows = re.findall(
        r"^\| .* \| 1\.[x\d]+ \| \d+ \| (\d+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE.read_text(), re.MULTILINE
    )
    return [(int(ops), float(took), float(each)) for ops, took, each in rows]


def test_the_band_is_that_of_published_programs() -> None:
    rows = published()
    assert len(rows) == 6 and min(ops for ops, _, _ in rows) < 150 and max(ops for ops, _, _ in rows) > 800
    for ops, took, each in rows:
        assert took / ops * 1e3 == pytest.approx(each, rel=0.05)
        least, most = seconds(ops)
        assert least <= took <= most
    ratios = [took / ops for ops, took, _ in rows]
    assert seconds(1)[0] > 0.8 * min(ratios) and seconds(1)[1] < 1.1 * max(ratios)


def report(*clusters: tuple[int, dict[str, int]], single: int = 0) -> RecompilationReport:
    found = [History(f"cluster_{k}", ops, (), counts=Counter(counts)) for k, (ops, counts) in enumerate(clusters)]
    return RecompilationReport(tuple(found), {"Add": {"known": single}} if single else {})


def test_every_set_of_shapes_is_compiled_there() -> None:
    got = report((100, {"compiled": 2, "known": 8}), (1000, {"cache": 1}))
    assert got.seconds_on_a_card == pytest.approx((2000 * 0.003, 2000 * 0.05))
    data = got.to_dict()
    assert data["seconds_on_a_card"] == pytest.approx([6, 100]) and data["recipes_on_a_card"] == 11
    assert [c["seconds_on_a_card"] for c in data["clusters"]] == [pytest.approx([0.3, 5]), pytest.approx([3, 50])]
    text = got.text(1000)
    assert "at most 11 recipes, which take about 0.1 to 1.7 min (docs/recompilations.md)." in text
    assert "cluster_1, 1000 ops; a recipe takes a real card about 3 to 50 s" in text
    assert got.summary() == "11 shape sets, 3 recipes here; a real card: at most 11, about 0.1 to 1.7 min"
    assert "about 0.1 to 1.7 min" in got._repr_html_()


def test_single_ops_are_counted_without_a_time() -> None:
    text = report((100, {"compiled": 1}), single=7).text(1000)
    assert "at most 8 recipes; that of clusters takes about 0.3 to 5 s" in text
    alone = report(single=1)
    assert "at most 1 recipe." in alone.text(1000) and alone.to_dict()["seconds_on_a_card"] == [0, 0]
    assert alone.summary().endswith("a real card: at most 1")
