"""Compares HPU with stock TensorFlow on the CPU, and prints JSON lines and a table.

    python tests/benchmarks/bench.py --models mlp lenet --precision fp32 bf16 --pairs 5

Machines are noisy, so every number is a comparison within one run. One pair is a run on HPU and a run of each stock
mode (default and jit_compile=True), right after each other in fresh processes with the same number of threads; the
order turns around from pair to pair. The ratio of a pair is the stock step time over HPU's, so more than 1 means that
HPU is faster; it is taken against the stock mode that is fastest over all pairs. Stock has its oneDNN kernels unless
TF_ENABLE_ONEDNN_OPTS=0 is set: TensorFlow leaves them off on some CPUs where they make bf16 ten times faster.

On HPU every other run starts with an empty recipe cache (cold), the others with the recipes of the one before (warm).
`resnet50_build` is built and compiled only: no step. The large models take minutes each: ask for them by name, with
fewer steps; XLA, which is no match there, is left out.

`--peers itex torch` adds Intel's extension for TensorFlow and PyTorch (eager and compiled), see `peers.py`: a second
ratio is against the fastest of all others, then. A peer that fails (ITEX has no bf16 on some CPUs) is left out, and
standard error says why.

`scaling` (see `scaling.py`) is what strategies cost, `warmstart` (see `warmstart.py`) what the recipe cache is worth,
`firstcall` (see `firstcall.py`) how long one waits for a model's first eager call without it, and `kernels` (see
`kernels.py`) what each kernel of a step takes, beside what this CPU can do: `--models scaling warmstart firstcall
kernels`, for the models in `--scale`.

`--framework torch` compares PyTorch on HPU with PyTorch on the CPU instead (see `torch_bench.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))  # behind the installed package

from tests.benchmarks import firstcall, kernels, peers, scaling, torch_bench, warmstart

WORKER = Path(__file__).with_name("worker.py")
STOCK = ("default", "xla")
SMALL = ("mlp", "lenet")
LARGE = (
    "resnet50", "mobilenetv2", "vit", "bert", "lstm", "gru", "unet", "convnext", "efficientnet", "decoder512",
    "decoder2048",
)  # fmt: skip
BUILT = "resnet50_build"
COMPARISONS: dict[str, Any] = {
    "scaling": scaling,
    "warmstart": warmstart,
    "firstcall": firstcall,
    "kernels": kernels,
}

Run = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    lines: list[dict[str, Any]] = []
    compared: list[dict[str, Any]] = []
    if options.framework == "torch":
        _write(options.json, torch_bench.lines(options))
        return
    for name, kind in COMPARISONS.items():
        for model in options.scale if name in options.models else ():
            line = _rounded(kind.summary(model, options.threads, kind.measure(model, options)))
            compared.append(line)
            print(json.dumps(line), flush=True)
            print(kind.sentence(line), flush=True)
    for model in (model for model in options.models if model not in COMPARISONS):
        for precision in options.precision if model != BUILT else ["fp32"]:
            line = summary(model, precision, options.threads, pairs(model, precision, options))
            lines.append(line)
            print(json.dumps(line), flush=True)
    if lines:
        print("\n" + table(lines))
    _write(options.json, compared + lines)


def _write(file: str | None, lines: Sequence[dict[str, Any]]) -> None:
    """Writes JSON lines where that is asked for."""
    if file:
        Path(file).write_text("".join(json.dumps(line) + "\n" for line in lines))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Step times on HPU beside stock TensorFlow on the CPU.")
    parser.add_argument(
        "--framework", choices=["tensorflow", "torch"], default="tensorflow",
        help=f"torch: PyTorch's step times, of {', '.join(torch_bench.MODELS)} where --models names none of these",
    )  # fmt: skip
    parser.add_argument(
        "--models", nargs="+", choices=[*SMALL, *LARGE, BUILT, *COMPARISONS], default=[*SMALL, BUILT],
        help=f"steps of small models ({', '.join(SMALL)}) and large ones ({', '.join(LARGE)}); {BUILT}, without one; "
        f"{' and '.join(COMPARISONS)} of the models in --scale. Default: {' '.join((*SMALL, BUILT))}",
    )  # fmt: skip
    parser.add_argument("--precision", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"])
    parser.add_argument(
        "--scale", nargs="+", choices=[*SMALL, *LARGE], default=["resnet50", *SMALL],
        help=f"models for {' and '.join(COMPARISONS)}. Default: resnet50 {' '.join(SMALL)}",
    )  # fmt: skip
    parser.add_argument(
        "--peers",
        nargs="+",
        choices=list(peers.PEERS),
        default=[],
        help="other ways to train, installed when first named",
    )
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, help="steps per run (300; 12 for a large model)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="for HPU and stock alike")
    parser.add_argument("--json", metavar="FILE", help="write the JSON lines there too")
    return parser


def pairs(model: str, precision: str, options: argparse.Namespace) -> list[dict[str, Run]]:
    """What the workers measured: per pair one run per device, by device."""
    devices = ["hpu", *(STOCK if model in SMALL else STOCK[:1])]
    if model != BUILT:
        devices += peers.modes(options.peers, model)
    out: list[dict[str, Run]] = []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(options.pairs):
            recipes = Path(folder) / f"recipes{pair // 2}"
            out.append({})
            for device in devices if pair % 2 == 0 else devices[::-1]:
                try:
                    out[-1][device] = _run(model, device, precision, recipes, options)
                except FailedRun as error:
                    if device not in peers.MODES:
                        raise SystemExit(str(error)) from error
                    print(f"Left out: {error}", file=sys.stderr)
                    devices = [each for each in devices if each != device]
    return [{device: run for device, run in pair.items() if device in devices} for pair in out]


class FailedRun(RuntimeError):
    """A worker ended with an error; the message has the end of what it wrote."""


def _run(model: str, device: str, precision: str, recipes: Path, options: argparse.Namespace) -> Run:
    own = [sys.executable, str(WORKER), "--device", device]
    command = [*(peers.command(device) if device in peers.MODES else own), "--model", model, "--precision", precision]
    steps = options.steps or (300 if model in SMALL else 12)
    command += ["--threads", str(options.threads), "--steps", str(steps)]
    environment = {**os.environ, "TF_RECIPE_CACHE_PATH": str(recipes)}
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise FailedRun(f"{model} on {device} in {precision} failed:\n{done.stderr[-4000:]}")
    result: Run = json.loads(done.stdout.splitlines()[-1])
    return result


def summary(model: str, precision: str, threads: int, measured: list[dict[str, Run]]) -> dict[str, Any]:
    """One JSON line: times in milliseconds per step and seconds to the first step, and ratios."""
    line: dict[str, Any] = {
        "model": model,
        "precision": precision,
        "threads": threads,
        "pairs": len(measured),
        "tensorflow": measured[0]["hpu"]["tensorflow"],
    }
    what = "build" if model == BUILT else "step"
    devices = [device for device in ("hpu", *STOCK, *peers.MODES) if device in measured[0]]
    for device in devices:
        runs = [pair[device] for pair in measured]
        line[device] = _build_times(runs) if model == BUILT else _step_times(runs)
    others = [device for device in devices[1:] if device not in peers.MODES]
    line["best_stock"], line[f"{what}_ratio"] = _ratio(measured, others)
    if any(device in peers.MODES for device in devices):
        _check_parameters(model, measured[0])
        line["best_other"], line["other_ratio"] = _ratio(measured, devices[1:])
    return _rounded(line)


def _ratio(measured: list[dict[str, Run]], others: list[str]) -> tuple[str, dict[str, float]]:
    """The fastest of the others over all pairs, and its time over HPU's."""
    best = min(others, key=lambda device: statistics.median(_typical(pair[device]) for pair in measured))
    ratios = [_typical(pair[best]) / _typical(pair["hpu"]) for pair in measured]
    return best, {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}


def _check_parameters(model: str, runs: dict[str, Run]) -> None:
    """That all trained the same network."""
    counts = {device: run["parameters"] for device, run in runs.items()}
    if len(set(counts.values())) > 1:
        raise SystemExit(f"{model} is not the same network everywhere, numbers of trained parameters: {counts}")


def _typical(run: Run) -> float:
    """The time of a run that is compared, in seconds."""
    return run["build"] if "build" in run else statistics.median(run["steps"])


def _build_times(runs: list[Run]) -> dict[str, Any]:
    return {f"build_s{kind}": statistics.median(run["build"] for run in some) for kind, some in _starts(runs).items()}


def _step_times(runs: list[Run]) -> dict[str, Any]:
    steps = [step * 1e3 for run in runs for step in run["steps"]]
    times = {"step_ms": {"median": statistics.median(steps), "lower_quartile": statistics.quantiles(steps, n=4)[0]}}
    starts = {
        f"first_step_s{kind}": statistics.median(run["first_step"] for run in some)
        for kind, some in _starts(runs).items()
    }
    return {**times, **starts}


def _starts(runs: list[Run]) -> dict[str, list[Run]]:
    """Runs by how they started: on HPU cold or warm."""
    if "compiled" not in runs[0]:
        return {"": runs}
    kinds = {"_cold": [r for r in runs if r["compiled"]], "_warm": [r for r in runs if not r["compiled"]]}
    return {kind: some for kind, some in kinds.items() if some}


def _rounded(value: Any) -> Any:
    """Numbers with the digits that mean something."""
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return value


def table(lines: list[dict[str, Any]]) -> str:
    """The lines for people; times are medians."""
    head = [
        "model",
        "precision",
        "HPU",
        "stock",
        "stock XLA",
        "ratio (spread)",
        "first step: HPU cold",
        "warm",
        "stock",
    ]
    modes = [mode for mode in peers.MODES if any(mode in line for line in lines)]
    head += [*modes, *(["best other (spread)"] if modes else [])]
    rows = [head, *(_row(line) + _peer_cells(line, modes) for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _peer_cells(line: dict[str, Any], modes: list[str]) -> list[str]:
    """Times of the peers, and the ratio to the fastest of all others."""
    if not modes:
        return []
    cells = [f"{line[mode]['step_ms']['median']:.2f} ms" if mode in line else "" for mode in modes]
    return [*cells, f"{line['best_other']}: {_spread(line['other_ratio'])}" if "best_other" in line else ""]


def _spread(ratio: dict[str, float]) -> str:
    return f"{ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})"


def _row(line: dict[str, Any]) -> list[str]:
    hpu, stock, xla = line["hpu"], line["default"], line.get("xla")
    spread = _spread(line.get("step_ratio") or line["build_ratio"])
    if "step_ms" not in hpu:
        cold, warm, plain = _seconds(hpu, "build_s_cold"), _seconds(hpu, "build_s_warm"), _seconds(stock, "build_s")
        return [line["model"], line["precision"], "", "", "", spread, cold, warm, plain]
    times = [f"{each['step_ms']['median']:.2f} ms" if each else "" for each in (hpu, stock, xla)]
    starts = [_seconds(hpu, "first_step_s_cold"), _seconds(hpu, "first_step_s_warm"), _seconds(stock, "first_step_s")]
    return [line["model"], line["precision"], *times, spread, *starts]


def _seconds(times: dict[str, Any], name: str) -> str:
    return f"{times[name]:.2f} s" if name in times else ""


if __name__ == "__main__":
    main()
