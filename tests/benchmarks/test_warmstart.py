"""The arithmetic of the warm start benchmark, and one run with a small model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.benchmarks import bench, warmstart


def run(from_start: float, first_step: float) -> dict[str, Any]:
    return {"from_start": from_start, "first_step": first_step}


def test_summary() -> None:
    reading = {"bytes": 4_000_000, "seconds": 0.01, "first_seconds": 0.02, "entries": 12}
    measured = [
        {"cold": run(12, 8), "warm": run(7, 3), "stock": run(8, 4), "reading": reading},
        {"cold": run(14, 10), "warm": run(9, 5), "stock": run(8, 4), "reading": reading},
    ]
    line = warmstart.summary("mlp", 2, measured)
    assert line["cold"] == {"from_start": 13, "first_step": 9}
    assert line["warm_first_step_ratio"] == {"median": 1.0, "min": 0.75, "max": 1.25}
    assert line["cold_from_start_ratio"]["median"] == 1.625
    assert line["reading_mb_per_s"] == 400
    assert "12 recipes of 4.0 MB read and verified at 400 MB/s (200 MB/s the first time)" in warmstart.sentence(line)


@pytest.mark.rest
def test_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    bench.main(["--models", "warmstart", "--scale", "mlp", "--pairs", "1", "--threads", "1"])
    line = json.loads(capsys.readouterr().out.splitlines()[0])
    assert 0 < line["warm"]["first_step"] < line["warm"]["from_start"] < 600
    assert line["recipes"]["entries"] > 0 and line["reading_mb_per_s"] > 0
