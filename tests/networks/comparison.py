"""One network on HPU and on stock TensorFlow, both beside the truth.

    python -m tests.networks.comparison            # a table of all networks, fp32
    python -m tests.networks.comparison vit bert --precision bf16

Deep networks amplify rounding, so how far HPU may be from the truth is measured: as far as stock TensorFlow is, within
a factor: the farther of one run with two threads and oneDNN, and one with one thread and without. The truth is stock
TensorFlow in float64, or the first of the two where there is no such twin. Each run is a process of its own, from the
same seed.
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
    """gradients: per variable, distance of the first step's gradients from the truth as a part of their norm, for HPU
    and for stock. losses: the largest distance over the steps as a part of the first loss. coverage: what `train.py`
    says of HPU's step."""

    network: str
    gradients: dict[str, tuple[float, float]]
    losses: tuple[float, float]
    coverage: dict[str, Any]

    def worst(self) -> tuple[float, float]:
        """The largest distance of a gradient, for HPU and for stock."""
        return max(d for d, _ in self.gradients.values()), max(d for _, d in self.gradients.values())


def compare(network: str, precision: str = "fp32", steps: int = 3) -> Comparison:
    """Trains a network on HPU, on stock TensorFlow and in float64, and measures the distances."""
    with tempfile.TemporaryDirectory() as folder:
        hpu, coverage = _train(network, "hpu", precision, steps, folder, {"HABANA_SIM_LOG": "warning"})
        stock, _ = _train(network, "stock", precision, steps, folder, {})
        plain, _ = _train(network, "stock", precision, steps, folder, {"TF_ENABLE_ONEDNN_OPTS": "0"}, threads=1)
        if stock["fp32_only"]:
            truth, others = stock, [plain]
        else:
            (truth, _), others = _train(network, "exact", "fp32", steps, folder, {}), [stock, plain]
    gradients = {}
    names = [k for k in truth if k not in ("losses", "fp32_only")]
    whole = float(np.sqrt(sum(_norm(truth[k]) ** 2 for k in names)))
    for name in names:
        scale = max(_norm(truth[name]), 1e-2 * whole / len(names))  # many a bias has no gradient but rounding
        far, *spread = (_norm(run[name] - truth[name]) / scale for run in (hpu, *others))
        gradients[name] = (far, max(spread))
    far, *spread = (
        float((np.abs(run["losses"] - truth["losses"]) / abs(truth["losses"][0])).max()) for run in (hpu, *others)
    )
    return Comparison(network, gradients, (far, max(spread)), coverage)


def _norm(x: np.ndarray) -> float:
    return float(np.linalg.norm(x.astype(np.float64).ravel()))


def _train(
    network: str, device: str, precision: str, steps: int, folder: str, environment: dict[str, str], threads: int = 2
) -> tuple[Arrays, dict[str, Any]]:
    result = Path(folder) / f"{device}{threads}.npz"
    command = [sys.executable, "-m", "tests.networks.train", network, device, str(result), "--precision", precision]
    command += ["--steps", str(steps), "--threads", str(threads)]
    paths = os.pathsep.join(filter(None, [*sys.path, str(ROOT)]))  # the installed package before the sources
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": paths, **environment}
    done = subprocess.run(command, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise AssertionError(f"{network} on {device} failed:\n{done.stdout[-1000:]}\n{done.stderr[-6000:]}")
    with np.load(result) as arrays:
        found = {k: arrays[k] for k in arrays.files}
    return found, json.loads(done.stdout.splitlines()[-1]) if device == "hpu" else {}


def row(c: Comparison) -> str:
    """A line of the table."""
    far, noise = c.worst()
    cpu = {k.split(":")[0].removesuffix(" CPU"): n for k, n in c.coverage["outside"].items() if " CPU:" in k}
    total = c.coverage["inside"] + sum(c.coverage["outside"].values())
    return (
        f"| {c.network} | {c.coverage['inside']} of {total} | {c.coverage['clusters']} | {c.coverage['launches']} "
        f"| {', '.join(f'{n} {op}' for op, n in cpu.items()) or 'none'} "
        f"| {far:.1e} ({noise:.1e}) | {c.losses[0]:.1e} ({c.losses[1]:.1e}) |"
    )


def main() -> None:
    from tests.networks import zoo

    parser = argparse.ArgumentParser(description="Networks on HPU beside stock TensorFlow.")
    parser.add_argument("networks", nargs="*", default=list(zoo.NETWORKS))
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    options = parser.parse_args()
    print("| network | nodes in launches | clusters | launches a step | on the CPU | gradients (stock's) "
          "| losses (stock's) |\n|---|---|---|---|---|---|---|")  # fmt: skip
    for network in options.networks:
        try:
            print(row(compare(network, options.precision)), flush=True)
        except AssertionError as error:
            print(f"| {network} | {str(error)[-300:]!r} |", flush=True)


if __name__ == "__main__":
    main()
