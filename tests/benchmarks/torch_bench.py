"""Compares PyTorch on HPU with PyTorch on the CPU: `bench.py --framework torch`.

One pair is a run of each way to train, in fresh processes with the same number of threads; the order turns around from
pair to pair. The ways are HPU in lazy mode, HPU with torch.compile, and on the CPU PyTorch's eager mode and its own
torch.compile. The ratio of a pair is the step time of the faster way on the CPU over that of the faster one on HPU,
each the fastest over all pairs, so more than 1 means that HPU is faster. All train the networks of `torch_models.py`;
bf16 is autocast everywhere.

The last columns are what a step in lazy mode records, and the time of Python that this takes an op.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

WORKER = Path(__file__).with_name("torch_worker.py")
OURS = {"HPU lazy": "hpu-lazy", "HPU compile": "hpu-compile"}
THEIRS = {"torch": "eager", "torch.compile": "compile"}
MODELS = ("resnet50", "vit", "bert", "lstm", "mlp", "lenet")
_SMALL = ("mlp", "lenet")

Run = dict[str, Any]


def lines(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A line for each model and precision, printed when it is measured."""
    made = []
    for model in [m for m in options.models if m in MODELS] or MODELS:
        for precision in options.precision:
            line = summary(model, precision, options.threads, pairs(model, precision, options))
            made.append(line)
            print(json.dumps(line), flush=True)
    print("\n" + table(made))
    return made


def pairs(model: str, precision: str, options: argparse.Namespace) -> list[dict[str, Run]]:
    """What the workers measured: per pair one run per way. Raises SystemExit where one fails."""
    out: list[dict[str, Run]] = []
    ways = list((OURS | THEIRS).items())
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(options.pairs):
            out.append({})
            for way, device in ways if pair % 2 == 0 else ways[::-1]:
                out[-1][way] = _run(model, device, precision, Path(folder) / f"recipes{pair // 2}", options)
    return out


def _run(model: str, device: str, precision: str, recipes: Path, options: argparse.Namespace) -> Run:
    steps = options.steps or (300 if model in _SMALL else 12)
    command = [sys.executable, str(WORKER), "--model", model, "--device", device, "--precision", precision]
    command += ["--threads", str(options.threads), "--steps", str(steps)]
    lazy = {"hpu-lazy": "1", "hpu-compile": "0"}.get(device)
    environment = {**os.environ, "TF_RECIPE_CACHE_PATH": str(recipes)}
    if lazy is not None:
        environment["PT_HPU_LAZY_MODE"] = lazy
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{model} on {device} in {precision} failed:\n{done.stderr[-4000:]}")
    result: Run = json.loads(done.stdout.splitlines()[-1])
    return result


def summary(model: str, precision: str, threads: int, measured: list[dict[str, Run]]) -> dict[str, Any]:
    """One JSON line: times in milliseconds per step and seconds to the first step, and the ratio."""
    counts = {way: run["parameters"] for way, run in measured[0].items()}
    if len(set(counts.values())) > 1:
        raise SystemExit(f"{model} is not the same network everywhere, numbers of trained parameters: {counts}")
    line: dict[str, Any] = {"model": model, "precision": precision, "threads": threads, "pairs": len(measured)}
    line["torch_version"] = measured[0]["torch"]["torch"]
    for way in (*OURS, *THEIRS):
        steps = [step * 1e3 for pair in measured for step in pair[way]["steps"]]
        first = statistics.median(pair[way]["first_step"] for pair in measured)
        line[way] = {"step_ms": round(statistics.median(steps), 3), "first_step_s": round(first, 3)}
    ours, theirs = (min(ways, key=lambda way: line[way]["step_ms"]) for ways in (OURS, THEIRS))
    ratios = [statistics.median(p[theirs]["steps"]) / statistics.median(p[ours]["steps"]) for p in measured]
    line["best_ours"], line["best_theirs"] = ours, theirs
    line["ratio"] = {
        name: round(of(ratios), 3) for name, of in (("median", statistics.median), ("min", min), ("max", max))
    }
    recorded = [pair["HPU lazy"]["recorded"] for pair in measured]
    line["recorded_ops"] = recorded[0]["ops"]
    line["recording_us_per_op"] = round(min(each["us_per_op"] for each in recorded), 2)
    return line


def table(made: list[dict[str, Any]]) -> str:
    """The lines for people; times are medians of steps."""
    head = ["model", "precision", *OURS, *THEIRS, "ratio (spread)", "recorded ops", "us an op"]
    rows = [head]
    for line in made:
        times = [f"{line[way]['step_ms']:.2f} ms" for way in (*OURS, *THEIRS)]
        ratio = line["ratio"]
        spread = f"{ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})"
        cost = [str(line["recorded_ops"]), f"{line['recording_us_per_op']:.1f}"]
        rows.append([line["model"], line["precision"], *times, spread, *cost])
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    mean = statistics.geometric_mean(line["ratio"]["median"] for line in made)
    return "\n".join([*text, f"Geometric mean of the ratios: {mean:.2f}"])
