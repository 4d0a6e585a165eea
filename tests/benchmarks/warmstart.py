"""What the recipe cache is worth: from the start of the process to the end of the first training step.

Compared within one run, in turn, in fresh processes: HPU with an empty cache (cold), HPU with the recipes of that run
(warm), stock TensorFlow. Then how fast the recipes that the run left are read and verified, all of them one by one, in
bytes as they lie on the disk: the fastest of a few passes, since one takes milliseconds and whatever else the machine
does only adds to it, and the first pass of the process.
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
STEPS = 6
PASSES = 9
KINDS = ("cold", "warm", "stock")

Run = dict[str, Any]


def measure(model: str, options: argparse.Namespace) -> list[dict[str, Run]]:
    """Per repetition a run of each kind; under `reading` bytes of recipes and seconds to read and verify them."""
    out = []
    for _ in range(options.pairs):
        with tempfile.TemporaryDirectory() as recipes:
            runs = {kind: _run(model, kind, recipes, options.threads) for kind in KINDS}
            out.append({**runs, "reading": _read(recipes)})
    return out


def _run(model: str, kind: str, recipes: str, threads: int) -> Run:
    device = "default" if kind == "stock" else "hpu"
    command = [sys.executable, str(WORKER), "--model", model, "--device", device, "--threads", str(threads)]
    environment = {**os.environ, "TF_RECIPE_CACHE_PATH": recipes}
    if kind == "warm":
        environment["HABANA_SIM_COMPILE"] = "forbid"
    done = subprocess.run(
        [*command, "--steps", str(STEPS)], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{model}, {kind} start, failed:\n{done.stderr[-4000:]}")
    result: Run = json.loads(done.stdout.splitlines()[-1])
    return result


def _read(recipes: str) -> Run:
    """Reads and verifies every entry, as `habana-tf recipes verify` does."""
    from habana_tf import cache

    passes = [cache.verify(recipes) for _ in range(PASSES)]
    first = passes[0]
    assert not first.problems, first.problems
    seconds = [each.seconds for each in passes]
    return {"bytes": first.file_bytes, "seconds": min(seconds), "first_seconds": seconds[0],
            "entries": first.good}  # fmt: skip


def summary(model: str, threads: int, measured: list[dict[str, Run]]) -> dict[str, Any]:
    """One JSON line: medians in seconds, ratios to stock, megabytes (10^6 bytes) a second."""
    line: dict[str, Any] = {"model": f"warmstart {model}", "threads": threads, "pairs": len(measured)}
    for kind in KINDS:
        line[kind] = {
            what: statistics.median(each[kind][what] for each in measured) for what in ("from_start", "first_step")
        }
    for kind in ("cold", "warm"):
        for what in ("from_start", "first_step"):
            ratios = [each[kind][what] / each["stock"][what] for each in measured]
            line[f"{kind}_{what}_ratio"] = {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}
    reading = [each["reading"] for each in measured]
    for what, seconds in (("reading", "seconds"), ("first_reading", "first_seconds")):
        line[f"{what}_mb_per_s"] = statistics.median(each["bytes"] / 1e6 / each[seconds] for each in reading)
    line["recipes"] = {"entries": reading[0]["entries"], "mb": reading[0]["bytes"] / 1e6}
    return line


def sentence(line: dict[str, Any]) -> str:
    """The line for people."""
    shown = ", ".join(
        f"{kind} {line[kind]['from_start']:.1f} s (first step {line[kind]['first_step']:.1f} s)" for kind in KINDS
    )
    return (
        f"{line['model']}, process start to the end of the first step: {shown}; first step against stock: cold "
        f"{line['cold_first_step_ratio']['median']:.2f}, warm {line['warm_first_step_ratio']['median']:.2f} times; "
        f"{line['recipes']['entries']} recipes of {line['recipes']['mb']:.1f} MB read and verified at "
        f"{line['reading_mb_per_s']:.0f} MB/s ({line['first_reading_mb_per_s']:.0f} MB/s the first time)"
    )
