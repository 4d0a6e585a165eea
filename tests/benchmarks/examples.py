"""Runs the larger example programs on HPU and on stock TensorFlow, and prints a table and JSON lines.

    python tests/benchmarks/examples.py
    python tests/benchmarks/examples.py --programs vit unet --dtype fp32 --steps 60 --json examples.json

Per program and precision three runs in fresh processes, right after each other: HPU with an empty recipe cache (cold),
HPU with what that run left there (warm), and `--no_hpu`, the same program on stock TensorFlow in fp32. The step time is
the median over a run, without its first fifth, of what a user waits for: data made, the step, its loss read. The ratio
is stock over warm, so more than 1 means that HPU is faster; in brackets that of processor time, which other work on
the machine disturbs less. The second run should write no recipe, and no op should be on the CPU. A program that
prints `step 3/40, loss ...` for each step, as those with `common/loop.py` do, needs a row in PROGRAMS and no more.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
WORKER = Path(__file__).with_name("example_worker.py")
WARM_UP = 0.2
"""Part of the steps, at the start, that is not counted."""


@dataclass(frozen=True)
class Program:
    """steps: the argument for the number of steps. arguments: what else keeps the run short."""

    path: str
    steps: str
    arguments: tuple[str, ...] = ()


PROGRAMS = {
    "vit": Program("vit/train.py", "--num_steps"),
    "resnet": Program("resnet/resnet_ctl_main.py", "--train_steps"),
    "unet": Program("unet/unet2d.py", "--max_steps"),
    "ssd": Program("ssd/ssd.py", "--steps"),
    "text_generation": Program("text_generation/generate.py", "--num_steps"),
    "bert": Program("bert/run_pretraining.py", "--num_train_steps", ("--eval_every", "0")),
    "transformer": Program(
        "transformer/translate.py", "--train_steps", ("--eval_sentences", "8", "--eval_batch_size", "8")
    ),
}

Run = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Example programs on HPU beside stock TensorFlow on the CPU.")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--dtype", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"], help="on HPU")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--json", metavar="FILE", help="write the JSON lines there too")
    options = parser.parse_args(arguments)
    if options.steps < 3:
        parser.error("--steps: at least 3, since the first compiles")
    lines = []
    for name in options.programs:
        for dtype in options.dtype:
            lines.append(summary(name, dtype, measure(PROGRAMS[name], dtype, options.steps)))
            print(json.dumps(lines[-1]), flush=True)
    Console(width=None if sys.stdout.isatty() else 140).print(table(lines))
    if options.json:
        Path(options.json).write_text("".join(json.dumps(line) + "\n" for line in lines))


def measure(program: Program, dtype: str, steps: int) -> dict[str, Run]:
    """What the runs cold, warm and stock noted."""
    with tempfile.TemporaryDirectory() as folder:
        kinds = {"cold": [], "warm": [], "stock": ["--no_hpu"]}
        return {kind: run(program, ["-d", dtype, *extra], steps, folder) for kind, extra in kinds.items()}


def run(program: Program, extra: Iterable[str], steps: int, folder: str) -> Run:
    """One run, with recipes in a folder. Raises SystemExit with the end of what the program said when it fails."""
    result = Path(folder, "result.json")
    words = [program.steps, str(steps), "--log_every", "1", *program.arguments, *extra]
    done = subprocess.run(
        [sys.executable, str(WORKER), str(result), str(EXAMPLES / program.path), *words],
        env={"HABANA_SIM_LOG": "warning", "TF_CPP_MIN_LOG_LEVEL": "3", **os.environ,
             "TF_RECIPE_CACHE_PATH": str(Path(folder, "recipes"))},
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{program.path} {' '.join(words)} failed:\n{done.stdout[-1000:]}{done.stderr[-4000:]}")
    noted: Run = json.loads(result.read_text())
    if len(noted["seconds"]) != steps or noted["first"] is None:
        raise SystemExit(
            f"{program.path} said {len(noted['seconds'])} of {steps} steps: it should print a line 'step 3/{steps}, "
            "loss ...' for each with --log_every 1, the first with 'first step 1.2 s'"
        )
    return noted


def summary(name: str, dtype: str, runs: dict[str, Run]) -> dict[str, Any]:
    """One JSON line: milliseconds per step, seconds of first steps, recipes, launches, ops on the CPU."""
    line: dict[str, Any] = {"program": name, "dtype": dtype, "steps": len(runs["cold"]["seconds"])}
    for kind, noted in runs.items():
        line[kind] = {"step_ms": round(typical(noted) * 1e3, 2), "first_step_s": noted["first"]}
        line[kind]["processor_ms"] = round(typical(noted, "processor") * 1e3, 2)
    line["ratio"] = round(typical(runs["stock"]) / typical(runs["warm"]), 2)
    processor = [typical(runs[kind], "processor") for kind in ("stock", "warm")]
    line["processor_ratio"] = round(processor[0] / processor[1], 2)
    line["recipes_written"] = [runs[kind]["written"] for kind in ("cold", "warm")]
    line["compiled"] = [runs[kind]["compiled"] for kind in ("cold", "warm")]
    launches = runs["warm"]["launches"]
    line["launches_per_step"] = round((launches[-1] - launches[0]) / (len(launches) - 1), 2)
    cpu: dict[str, int] = dict(runs["warm"]["cpu"])
    for op in runs["warm"]["cpu_eager"]:
        cpu.setdefault(op, 1)
    line["ops_on_cpu"] = cpu
    return line


def typical(noted: Run, what: str = "seconds") -> float:
    """Median seconds of a step: of the wall ("seconds") or of all threads ("processor")."""
    numbers: list[float] = noted[what]
    return statistics.median(numbers[max(1, int(len(numbers) * WARM_UP)) :])


HEADS = ("dtype", "HPU ms", "stock ms", "ratio (processor)", "first s: cold", "warm", "stock", "written: cold", "warm",
         "launches", "ops on the CPU")  # fmt: skip


def table(lines: Iterable[dict[str, Any]]) -> Table:
    """The lines for people. ms: per step; first s: the first step; written: recipes; launches: per step."""
    made = Table(title="Example programs on HPU, cold and warm, and on stock TensorFlow (fp32)")
    made.add_column("program", no_wrap=True)
    for head in HEADS:
        made.add_column(head, justify="left" if head in ("dtype", "ops on the CPU") else "right")
    for line in lines:
        times = [f"{line[kind]['step_ms']:.1f}" for kind in ("warm", "stock")]
        ratio = f"{line['ratio']:.2f} ({line['processor_ratio']:.2f})"
        firsts = [f"{line[kind]['first_step_s']:.1f}" for kind in ("cold", "warm", "stock")]
        counts = [*map(str, line["recipes_written"]), f"{line['launches_per_step']:g}"]
        cpu = ", ".join(f"{count} {op}" for op, count in line["ops_on_cpu"].items()) or "none"
        made.add_row(line["program"], line["dtype"], *times, ratio, *firsts, *counts, cpu)
    return made


if __name__ == "__main__":
    main()
