"""The benchmark's arithmetic, and one short run of a worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.benchmarks import bench
from tests.child import environment


def run(step_ms: float, first: float, compiled: int | None = None) -> dict[str, Any]:
    steps = [step_ms * k / 1e3 for k in (0.9, 1.0, 1.0, 1.1)]
    recipes = {} if compiled is None else {"compiled": compiled}
    return {"tensorflow": "2.15.1", "first_step": first, "steps": steps, **recipes}


PAIRS = [
    {"hpu": run(4, 6.0, compiled=9), "default": run(8, 2.0), "xla": run(6, 3.0)},
    {"hpu": run(5, 2.5, compiled=0), "default": run(8, 2.0), "xla": run(10, 3.0)},
    {"hpu": run(4, 7.0, compiled=9), "default": run(8, 2.0), "xla": run(6, 3.0)},
]


def test_ratio_is_against_the_best_stock_mode_over_all_pairs() -> None:
    line = bench.summary("mlp", "fp32", 2, PAIRS)
    assert line["best_stock"] == "xla"
    assert line["step_ratio"] == {"median": 1.5, "min": 1.5, "max": 2.0}
    assert line["hpu"]["step_ms"]["median"] == 4.2  # of all steps together
    assert line["hpu"]["step_ms"]["lower_quartile"] < line["hpu"]["step_ms"]["median"]


def test_cold_and_warm_starts_apart() -> None:
    line = bench.summary("mlp", "fp32", 2, PAIRS)
    assert line["hpu"]["first_step_s_cold"] == 6.5
    assert line["hpu"]["first_step_s_warm"] == 2.5
    assert line["default"]["first_step_s"] == 2.0


def test_table_has_a_row_per_line() -> None:
    lines = [bench.summary("mlp", precision, 2, PAIRS) for precision in ("fp32", "bf16")]
    head, *rows = bench.table(lines).splitlines()
    assert head.startswith("model") and [row.split()[1] for row in rows] == ["fp32", "bf16"]
    assert "1.50 (1.50 to 2.00)" in rows[0] and "6.50 s" in rows[0]


def test_peers_have_a_ratio_of_their_own_and_the_same_network() -> None:
    pairs = [
        {
            device: {**each, "parameters": 7}
            for device, each in {**pair, "itex": run(7, 1.0), "torch": run(5, 1.0)}.items()
        }
        for pair in PAIRS
    ]
    line = bench.summary("mlp", "fp32", 2, pairs)
    assert line["best_stock"] == "xla" and line["best_other"] == "torch"
    assert line["other_ratio"] == {"median": 1.25, "min": 1.0, "max": 1.25}
    head, row = bench.table([line, bench.summary("mlp", "bf16", 2, PAIRS)]).splitlines()[:2]
    assert "torch.compile" not in head and row.rstrip().endswith("torch: 1.25 (1.00 to 1.25)")
    pairs[0]["torch"]["parameters"] = 8
    with pytest.raises(SystemExit, match="mlp is not the same network everywhere"):
        bench.summary("mlp", "fp32", 2, pairs)


def test_a_peer_that_fails_is_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def _run(model: str, device: str, *_: object) -> dict[str, Any]:
        if device in failing:
            raise bench.FailedRun(f"{model} on {device} in bf16 failed:\nno primitive")
        return run(5, 1.0)

    failing = {"itex"}
    monkeypatch.setattr(bench, "_run", _run)
    options = bench._parser().parse_args(["--peers", "itex", "torch", "--pairs", "2"])
    measured = bench.pairs("mlp", "bf16", options)
    assert [set(pair) for pair in measured] == [{"hpu", "default", "xla", "torch", "torch.compile"}] * 2
    assert capsys.readouterr().err.count("mlp on itex in bf16 failed:\nno primitive") == 1
    failing.add("default")
    with pytest.raises(SystemExit, match="mlp on default in bf16 failed"):
        bench.pairs("mlp", "bf16", options)


def test_build_only() -> None:
    pairs = [
        {"hpu": {"tensorflow": "2.15.1", "build": 6.0, "compiled": 3}, "default": {"tensorflow": "", "build": 3.0}}
    ]
    line = bench.summary(bench.BUILT, "fp32", 2, pairs)
    assert line["build_ratio"]["median"] == 0.5 and line["hpu"]["build_s_cold"] == 6.0
    assert bench.BUILT in bench.table([line])


@pytest.mark.parametrize("name", bench.COMPARISONS)
def test_json_has_the_lines_of_comparisons_too(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "COMPARISONS", {name: Comparison})
    file = tmp_path / "lines.json"
    bench.main(["--models", name, "--scale", "mlp", "lenet", "--json", str(file)])
    assert [json.loads(line)["model"] for line in file.read_text().splitlines()] == ["mlp", "lenet"]


class Comparison:
    """One that takes no time."""

    @staticmethod
    def measure(model: str, options: Any) -> str:
        return model

    @staticmethod
    def summary(model: str, threads: int, measured: str) -> dict[str, Any]:
        assert measured == model
        return {"model": model}

    @staticmethod
    def sentence(line: dict[str, Any]) -> str:
        return f"{line['model']}: nothing"


def test_help_names_every_model(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        bench.main(["--help"])
    told = capsys.readouterr().out.partition("--models")[2].partition("options:")[2]
    assert ended.value.code == 0
    assert all(name in told for name in (*bench.SMALL, *bench.LARGE, bench.BUILT, *bench.COMPARISONS))


@pytest.mark.parametrize("device", ["hpu", pytest.param("default", marks=pytest.mark.rest)])
def test_worker_measures_every_step(device: str) -> None:
    command = [str(bench.WORKER), "--model", "mlp", "--device", device, "--threads", "1", "--steps", "11"]
    done = forked.run(command, environment(), 200, hpu=device == "hpu")
    assert done.returncode == 0, done.stderr[-4000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert len(result["steps"]) == 8  # ten between eleven ends, of which a fifth warms up
    assert all(0 < step < 5 for step in result["steps"]) and result["first_step"] > 0
    assert ("compiled" in result) == (device == "hpu")
