"""How long the first eager call of a model takes: `model(x)` where every op is met for the first time.

Compared within one run, in pairs of fresh processes, in turn: HPU with an empty recipe cache, and stock TensorFlow.
The call is on one example, so that what is timed is what comes before computing. Beside it, for the whole picture: what
building the model takes, a second call, and the first `model.predict`, whose graph is compiled as a whole.
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

WORKER = Path(__file__).with_name("worker.py")
KINDS = ("hpu", "stock")
PARTS = ("build", "first_call", "second_call", "predict")

Run = dict[str, Any]


def measure(model: str, options: argparse.Namespace) -> list[dict[str, Run]]:
    """Per pair a run of each kind; which is first turns around from pair to pair."""
    out = []
    for pair in range(options.pairs):
        order = KINDS if pair % 2 == 0 else KINDS[::-1]
        out.append({kind: _run(model, kind, options.threads) for kind in order})
    return out


def _run(model: str, kind: str, threads: int) -> Run:
    device = "default" if kind == "stock" else "hpu"
    command = [sys.executable, str(WORKER), "--model", model, "--device", device, "--threads", str(threads)]
    with tempfile.TemporaryDirectory() as recipes:
        done = subprocess.run(
            [*command, "--first-call"], env={**os.environ, "TF_RECIPE_CACHE_PATH": recipes},
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{model}, first call on {kind}, failed:\n{done.stderr[-4000:]}")
    result: Run = json.loads(done.stdout.splitlines()[-1])
    return result


def summary(model: str, threads: int, measured: list[dict[str, Run]]) -> dict[str, Any]:
    """One JSON line: medians in seconds, ratios HPU to stock by pairs, and what HPU compiled in the first call."""
    line: dict[str, Any] = {"model": f"firstcall {model}", "threads": threads, "pairs": len(measured)}
    for kind in KINDS:
        line[kind] = {part: statistics.median(each[kind][part] for each in measured) for part in PARTS}
    for part in PARTS:
        ratios = [each["hpu"][part] / each["stock"][part] for each in measured]
        line[f"{part}_ratio"] = {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}
    first = measured[0]["hpu"]
    line["recipes"] = {"before": first["built_recipes"], "first_call": first["first_call_recipes"]}
    return line


def sentence(line: dict[str, Any]) -> str:
    """The line for people."""
    shown = ", ".join(f"{kind} {line[kind]['first_call'] * 1e3:.0f} ms" for kind in KINDS)
    ratio = line["first_call_ratio"]
    others = ", ".join(
        f"{part.replace('_', ' ')} {line[part + '_ratio']['median']:.2f}" for part in PARTS if part != "first_call"
    )
    return (
        f"{line['model']}: {shown}, {ratio['median']:.2f} times stock's ({ratio['min']:.2f} to {ratio['max']:.2f}), "
        f"{line['recipes']['first_call']} recipes compiled; {others} times"
    )
