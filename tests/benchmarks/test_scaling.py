"""The arithmetic of the scaling benchmark, and one short run."""

from __future__ import annotations

import argparse

import pytest

from tests.benchmarks import scaling
from tests.child import machine

MEASURED = [
    {
        "alone": 1.0,
        "one_worker": 1.02,
        "two_alone": 2.0,
        "two_workers": 2.2,
        "stock_alone": 2.0,
        "stock_one_worker": 2.4,
    },
    {
        "alone": 1.0,
        "one_worker": 1.04,
        "two_alone": 2.0,
        "two_workers": 2.6,
        "stock_alone": 2.0,
        "stock_one_worker": 2.0,
    },
]


def test_ratios_are_of_runs_next_to_each_other() -> None:
    line = scaling.summary("mlp", 2, MEASURED)
    assert line["model"] == "scaling mlp" and line["alone"] == 1000.0
    assert line["one_worker_ratio"]["median"] == pytest.approx(1.03)
    assert line["two_workers_ratio"]["max"] == pytest.approx(1.3)
    assert line["stock_one_worker_ratio"]["min"] == 1.0
    assert "1.03 (1.02 to 1.04)" in scaling.sentence(line) and "1.20 (1.10 to 1.30)" in scaling.sentence(line)


@pytest.mark.rest
@pytest.mark.slow
def test_kinds_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two with all that any of them has: a strategy, stock TensorFlow, two processes, a cluster."""
    monkeypatch.setenv("HABANA_SIM_STATE_DIR", machine())  # other tests hold cards
    monkeypatch.setattr(scaling, "KINDS", kinds := ("stock_one_worker", "two_workers"))
    (times,) = scaling.measure("mlp", argparse.Namespace(steps=5, threads=2, pairs=1))
    assert tuple(times) == kinds and all(0 < each < 60 for each in times.values())
