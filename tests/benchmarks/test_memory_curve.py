"""The benchmark of memory runs: a line per so many shapes or clusters, and they are different ones."""

from __future__ import annotations

import re

import pytest

from habana_tf.resolver import recipes, recompilations
from tests.benchmarks import memory_curve


@pytest.mark.parametrize("kind", ["shapes", "clusters"])
def test_a_line_per_so_many(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    recipes.reset()
    recompilations.reset()
    memory_curve.main([f"--{kind}", "6", "--every", "2", "--own", "--here"])
    title, *lines = capsys.readouterr().out.splitlines()
    assert title == f"{kind}: the resolver alone"
    found = [re.fullmatch(r" *(\d+) +[\d.]+ MiB( +[\d.]+ ms each)?", line) for line in lines]
    assert [m and m[1] for m in found] == ["1", "2", "4", "6"]
    met = recompilations.recompilation_report().clusters
    assert [c.counts.total() for c in met] == ([6] if kind == "shapes" else [1] * 6)


def test_clusters_differ() -> None:
    made = [memory_curve.chosen(k) for k in range(2000)]
    assert len({(*ops, constant) for ops, constant in made}) == 2000


@pytest.mark.rest
def test_it_runs_by_hand(capfd: pytest.CaptureFixture[str]) -> None:
    memory_curve.main(["--shapes", "3", "--own"])
    assert len(capfd.readouterr().out.splitlines()) == 4
