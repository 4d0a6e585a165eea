"""One network on HPU and on stock TensorFlow, both beside the truth.

    python -m tests.networks.comparison            # a table of all networks, fp32
    python -m tests.networks.comparison vit bert --precision bf16

Deep networks amplify rounding, so how far HPU may be from the truth is measured: as far as stock TensorFlow is, within
a factor: the farthest of a run with two threads and oneDNN, one with one thread and without, and, where asked for,
some whose weights are moved to the next float each: one rounding, which flips a ReLU here and there, as any other order
of sums does. The
truth is stock TensorFlow in float64, or the first of these where there is no such twin. Each run is a process of its
own, from the same seed.

In bf16 (Keras' policy mixed_bfloat16) the truth is the same, in full precision; networks are without dropout, whose
draws depend on the precision, and stock TensorFlow runs once, since its spread is nothing beside its rounding.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Comparison:
    """How far HPU is from the truth, and how far stock TensorFlow is.

    gradients: per variable, of the first step's gradient as a part of its norm; together: of all gradients as one
    vector. losses: the largest distance over the steps as a part of the first loss. coverage: what `train.py` says of
    HPU's step.
    """

    network: str
    gradients: dict[str, tuple[float, float]]
    together: tuple[float, float]
    losses: tuple[float, float]
    coverage: dict[str, Any]

    @property
    def work(self) -> float:
        """The part of the step's multiply-adds that HPU does."""
        return self.coverage["work_inside"] / self.coverage["work"]

    def worst(self) -> tuple[float, float]:
        """The largest distance of a gradient, for HPU and for stock."""
        return max(d for d, _ in self.gradients.values()), max(d for _, d in self.gradients.values())


def compare(network: str, precision: str = "fp32", steps: int = 3, draws: int = 0) -> Comparison:
    """Trains a network on HPU, on stock TensorFlow and in float64, and measures the distances.

    draws: how many runs of stock TensorFlow in fp32 with weights moved to the next float count, too.
    """
    full = precision == "fp32"
    options = ["--steps", str(steps), *([] if full else ["--no-dropout"])]
    with tempfile.TemporaryDirectory() as folder:

        def train(
            device: str, precision: str, threads: int = 2, disturb: int | None = None, **environment: str
        ) -> tuple[Arrays, dict[str, Any]]:
            more = [
                "--precision",
                precision,
                "--threads",
                str(threads),
                *([] if disturb is None else ["--disturb", str(disturb)]),
            ]
            return _train(network, device, Path(folder, "result.npz"), [*options, *more], environment)

        hpu, coverage = train("hpu", precision, HABANA_SIM_LOG="warning")
        stock, _ = train("stock", precision, TF_ENABLE_ONEDNN_OPTS="1")
        others = [stock]
        if full:
            others.append(train("stock", precision, threads=1, TF_ENABLE_ONEDNN_OPTS="0")[0])
            others += [train("stock", precision, disturb=seed)[0] for seed in range(draws)]
        if not stock["fp32_only"]:
            truth, _ = train("exact", "fp32")
        elif full:
            truth = others.pop(0)
        else:
            truth, _ = train("stock", "fp32")
    gradients = {}
    names = [k for k in truth if k not in ("losses", "fp32_only")]
    whole = float(np.sqrt(sum(_norm(truth[k]) ** 2 for k in names)))
    for name in names:
        scale = max(_norm(truth[name]), 1e-2 * whole / len(names))  # many a bias has no gradient but rounding
        far, *spread = (_norm(run[name] - truth[name]) / scale for run in (hpu, *others))
        gradients[name] = (far, max(spread))
    together = [float(np.sqrt(sum(_norm(run[k] - truth[k]) ** 2 for k in names))) / whole for run in (hpu, *others)]
    far, *spread = (
        float((np.abs(run["losses"] - truth["losses"]) / abs(truth["losses"][0])).max()) for run in (hpu, *others)
    )
    return Comparison(network, gradients, (together[0], max(together[1:])), (far, max(spread)), coverage)


def _norm(x: np.ndarray) -> float:
    return float(np.linalg.norm(x.astype(np.float64).ravel()))


def _train(
    network: str, device: str, result: Path, options: list[str], environment: dict[str, str]
) -> tuple[Arrays, dict[str, Any]]:
    command = [sys.executable, "-m", "tests.networks.train", network, device, str(result), *options]
    paths = os.pathsep.join(filter(None, [*sys.path, str(ROOT)]))  # the installed package before the sources
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": paths, **environment}
    done = subprocess.run(command, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise AssertionError(f"{network} on {device} failed:\n{done.stdout[-1000:]}\n{done.stderr[-6000:]}")
    with np.load(result) as arrays:
        found = {k: arrays[k] for k in arrays.files}
    return found, json.loads(done.stdout.splitlines()[-1]) if device == "hpu" else {}


HEAD = (
    "| network | nodes in launches | multiply-adds in launches | clusters | launches a step | on the CPU "
    "| worst gradient (stock's) | all gradients (stock's) | losses (stock's) |\n" + "|---" * 9 + "|"
)


def row(c: Comparison) -> str:
    """A line of the table."""
    distances = " | ".join(f"{ours:.1e} ({stock:.1e})" for ours, stock in (c.worst(), c.together, c.losses))
    cpu = {k.replace(" CPU:", ":"): n for k, n in c.coverage["outside"].items() if " CPU:" in k}
    total = c.coverage["inside"] + sum(c.coverage["outside"].values())
    return (
        f"| {c.network} | {c.coverage['inside']} of {total} | {c.work:.1%} of {c.coverage['work'] / 1e6:.3g} M "
        f"| {c.coverage['clusters']} | {c.coverage['launches']} "
        f"| {'; '.join(f'{n} {op}' for op, n in cpu.items()) or 'none'} | {distances} |"
    )


def main() -> None:
    from tests.networks import zoo

    parser = argparse.ArgumentParser(description="Networks on HPU beside stock TensorFlow.")
    parser.add_argument("networks", nargs="*", default=list(zoo.NETWORKS))
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument(
        "--draws", type=int, default=0, help="runs of stock TensorFlow with weights moved by a rounding"
    )
    options = parser.parse_args()
    print(HEAD)
    for network in options.networks:
        try:
            print(row(compare(network, options.precision, draws=options.draws)), flush=True)
        except AssertionError as error:
            print(f"| {network} | {str(error)[-300:]!r} |", flush=True)


if __name__ == "__main__":
    main()
