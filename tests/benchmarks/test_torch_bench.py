"""The arithmetic of the comparison with PyTorch, and one short run of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import bench, torch_bench
from tests.torch.child import needs_torch


def _run(step_ms: float) -> dict[str, Any]:
    steps = [step_ms * k / 1e3 for k in (0.9, 1.0, 1.0, 1.1)]
    recorded = {"ops": 40, "us_per_op": step_ms}
    return {"torch": "2.13.0", "parameters": 7, "first_step": 1.0, "steps": steps, "recorded": recorded}


def _pair(*step_ms: float) -> dict[str, Any]:
    ways = (*torch_bench.OURS, *torch_bench.THEIRS)
    return {way: _run(each) for way, each in zip(ways, step_ms, strict=True)}


def test_ratio_is_between_the_faster_ways_of_both() -> None:
    line = torch_bench.summary("mlp", "fp32", 2, [_pair(4, 5, 9, 8), _pair(4, 3, 9, 6), _pair(4, 5, 7, 8)])
    assert (line["best_ours"], line["best_theirs"]) == ("HPU lazy", "torch.compile")
    assert line["ratio"] == {"median": 2.0, "min": 1.5, "max": 2.0}
    assert line["recorded_ops"] == 40 and line["recording_us_per_op"] == 4


def test_table_has_a_row_per_line_and_their_mean() -> None:
    made = [torch_bench.summary(model, "fp32", 2, [_pair(1, 2, n, n)]) for model, n in (("mlp", 2), ("vit", 8))]
    head, *rows, mean = torch_bench.table(made).splitlines()
    assert head.split()[:2] == ["model", "precision"] and [row.split()[0] for row in rows] == ["mlp", "vit"]
    assert mean.endswith("4.00")


def test_another_network_is_no_comparison() -> None:
    pair = _pair(1, 1, 1, 1)
    pair["torch"]["parameters"] = 8
    with pytest.raises(SystemExit, match="mlp is not the same network everywhere"):
        torch_bench.summary("mlp", "fp32", 2, [pair])


@needs_torch
@pytest.mark.rest
def test_a_short_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_bench, "THEIRS", {"torch": "eager"})
    file = tmp_path / "lines.json"
    options = ["--framework", "torch", "--models", "mlp", "--precision", "fp32", "bf16", "--pairs", "1", "--steps", "5"]
    bench.main([*options, "--json", str(file)])
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["precision"] for line in lines] == ["fp32", "bf16"]
    assert all(line["recorded_ops"] > 20 and 0 < line["recording_us_per_op"] < 1000 for line in lines)
