"""Several workers train as one process does: HPUStrategy and Horovod beside stock TensorFlow in the same run.

The measure is stock TensorFlow's own: how far its average of two half batches is from its whole batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.distribute.job import Job, cluster, free_ports, gloo, job
from tests.versions import needs_horovod

SCRIPT = """
import sys
from tests.distribute.training import main

main(*sys.argv[1:])
"""


@dataclass
class Trained:
    """What one process reported: gradients of the first step, weights after the last, and numbers."""

    gradients: list[np.ndarray]
    weights: list[np.ndarray]
    numbers: dict[str, Any]


def read(folder: Path, name: str, numbers: dict[str, Any]) -> Trained:
    with np.load(folder / f"{name}.npz") as arrays:
        count = len(arrays) // 2
        gradients = [arrays[f"gradients{k}"] for k in range(count)]
        return Trained(gradients, [arrays[f"weights{k}"] for k in range(count)], numbers)


def distance(a: list[np.ndarray], b: list[np.ndarray]) -> float:
    return float(np.sqrt(sum(np.square(x.astype(np.float64) - y).sum() for x, y in zip(a, b, strict=True))))


@pytest.fixture(scope="module")
def stock() -> tuple[Trained, Trained]:
    """Stock TensorFlow with whole batches, and with the averages of two halves."""
    with job(SCRIPT) as running:
        for parts in ("1", "2"):
            running.script("stock", parts)
        codes = running.wait()
        assert not any(codes), running.everything()
        whole, halves = (read(running.folder / "reports", f"stock{parts}", {}) for parts in ("1", "2"))
        return whole, halves


@contextmanager
def started(kind: str, workers: int) -> Iterator[Job]:
    """A job whose ranks run. Horovod's are over Gloo: MPI's keep the cores busy while they wait."""
    with job(SCRIPT) as running, ExitStack() as held:
        start(running, kind, workers, held)
        yield running


def start(running: Job, kind: str, workers: int, held: ExitStack) -> None:
    recipes = str(running.folder / "recipes")
    if kind == "horovod":
        held.enter_context(gloo(running, workers, kind, TF_RECIPE_CACHE_PATH=recipes))
        return
    ports = free_ports(workers)
    for rank in range(workers):
        variables = {"TF_CONFIG": cluster(ports, rank), "HLS_MODULE_ID": str(rank), "TF_RECIPE_CACHE_PATH": recipes}
        running.script(kind, **variables)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.rest)])
@pytest.mark.parametrize("kind", ["strategy", pytest.param("horovod", marks=needs_horovod)])
def test_workers_train_as_one(stock: tuple[Trained, Trained], kind: str, workers: int) -> None:
    whole, halves = stock
    with started(kind, workers) as running:
        codes = running.wait()
        assert not any(codes), running.everything()
        reports = [numbers for numbers in running.reports() if isinstance(numbers, dict)]
        ranks = [read(running.folder / "reports", str(n["rank"]), n) for n in reports]
        entries = len(list((running.folder / "recipes").rglob("*.recipe")))
    assert len(ranks) == workers

    for other in ranks[1:]:
        for mine, theirs in zip(ranks[0].weights, other.weights, strict=True):
            assert mine.tobytes() == theirs.tobytes()
    for rank in ranks:
        assert rank.numbers["device"].endswith("HPU:0")
        for ours, expected in zip(rank.gradients, whole.gradients, strict=True):
            assert distance([ours], [expected]) <= 1e-5 * np.linalg.norm(expected)
    noise = distance(halves.weights, whole.weights)
    assert 0 < noise < 1e-4 * distance(whole.weights, [np.zeros_like(w) for w in whole.weights])
    assert distance(ranks[0].weights, whole.weights) <= 3 * noise

    counts = [rank.numbers["recipes"] for rank in ranks]
    assert sum(c["compiled"] for c in counts) == entries > 0, counts  # each recipe once on this host
    assert all(c["compiled"] + c["disk_hits"] + c["shared"] == entries for c in counts), counts  # and all of them
    for rank in ranks:  # one launch before the exchange and one behind it
        assert rank.numbers["launches"] == 2, rank.numbers
