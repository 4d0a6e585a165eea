"""What strategies cost: one worker under a strategy beside none, and two workers beside two independent processes.

Like everything in `bench.py` it is compared within one run, in turn, in fresh processes. The two workers, like the two
independent processes, have half of the threads each, and each trains on a batch of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

WORKER = Path(__file__).with_name("worker.py")
KINDS = ("alone", "one_worker", "two_alone", "two_workers", "stock_alone", "stock_one_worker")
SMALL_STEPS, LARGE_STEPS = 300, 12

Times = dict[str, float]


def measure(model: str, options: argparse.Namespace) -> list[Times]:
    """Per repetition the median step time of every kind, in seconds."""
    steps = options.steps or (SMALL_STEPS if model in ("mlp", "lenet") else LARGE_STEPS)
    out = []
    for repetition in range(options.pairs):
        order = KINDS if repetition % 2 == 0 else KINDS[::-1]
        out.append({kind: _time(kind, model, steps, options.threads) for kind in order})
    return out


def _time(kind: str, model: str, steps: int, threads: int) -> float:
    processes = 2 if kind.startswith("two") else 1
    command = [sys.executable, str(WORKER), "--model", model, "--steps", str(steps)]
    command += ["--device", "default" if kind.startswith("stock") else "hpu"]
    command += ["--threads", str(max(1, threads // processes))]
    if "worker" in kind:
        command.append("--strategy")
    return statistics.median(step for steps in _run(command, processes, kind == "two_workers") for step in steps)


def _run(command: Sequence[str], processes: int, cluster: bool) -> list[list[float]]:
    """The step times of processes that run at the same time."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(processes)]
        for each in sockets:
            each.bind(("localhost", 0))
        workers = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    running = []
    try:
        for index in range(processes):
            task = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
            variables = {"HLS_MODULE_ID": str(index), **({"TF_CONFIG": json.dumps(task)} if cluster else {})}
            running.append(
                subprocess.Popen(
                    command, env={**os.environ, **variables}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, text=True,
                )
            )  # fmt: skip
        ended = [each.communicate() for each in running]
    finally:
        for each in running:
            each.kill()
    for each, (_, errors) in zip(running, ended, strict=True):
        if each.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{errors[-4000:]}")
    return [json.loads(out.splitlines()[-1])["steps"] for out, _ in ended]


def summary(model: str, threads: int, measured: list[Times]) -> dict[str, Any]:
    """One JSON line: medians in milliseconds per step, and ratios of times with and without a strategy."""
    line: dict[str, Any] = {"model": f"scaling {model}", "threads": threads, "pairs": len(measured)}
    for kind in KINDS:
        line[kind] = statistics.median(times[kind] for times in measured) * 1e3
    for name, with_strategy, without in [
        ("one_worker_ratio", "one_worker", "alone"),
        ("stock_one_worker_ratio", "stock_one_worker", "stock_alone"),
        ("two_workers_ratio", "two_workers", "two_alone"),
    ]:
        ratios = [times[with_strategy] / times[without] for times in measured]
        line[name] = {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}
    return line


def sentence(line: dict[str, Any]) -> str:
    """The ratios for people."""

    def shown(name: str) -> str:
        ratio = line[name]
        return f"{ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})"

    return (
        f"{line['model']}: a step under HPUStrategy takes {shown('one_worker_ratio')} times as long as without "
        f"(stock TensorFlow: {shown('stock_one_worker_ratio')}); of two workers {shown('two_workers_ratio')} times "
        "as long as of two independent processes"
    )
