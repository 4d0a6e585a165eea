"""The arithmetic of the first call benchmark, and one run with a small model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.benchmarks import bench, firstcall


def run(first_call: float, **more: int) -> dict[str, Any]:
    return {"build": 1.0, "first_call": first_call, "second_call": 0.1, "predict": 2.0, **more}


def test_summary() -> None:
    recipes = {"built_recipes": 8, "first_call_recipes": 5}
    measured = [
        {"hpu": run(0.2, **recipes), "stock": run(0.1)},
        {"stock": run(0.2), "hpu": run(0.3, **recipes)},
    ]
    line = firstcall.summary("mlp", 2, measured)
    assert line["hpu"]["first_call"] == 0.25
    assert line["first_call_ratio"] == pytest.approx({"median": 1.75, "min": 1.5, "max": 2.0})
    assert line["recipes"] == {"before": 8, "first_call": 5}
    assert "hpu 250 ms, stock 150 ms, 1.75 times stock's (1.50 to 2.00), 5 recipes" in firstcall.sentence(line)


@pytest.mark.rest
def test_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    bench.main(["--models", "firstcall", "--scale", "mlp", "--pairs", "1", "--threads", "1"])
    line = json.loads(capsys.readouterr().out.splitlines()[0])
    assert 0 < line["hpu"]["second_call"] < line["hpu"]["first_call"] < 60
    assert line["recipes"]["first_call"] > 0
