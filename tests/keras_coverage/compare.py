"""HPU beside stock TensorFlow: one process each runs all cases of a file, and each case is judged by itself."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests import forked
from tests.child import environment

RTOL, ATOL = 1e-4, 1e-5
"""A number may differ by 1e-4 of itself or 1e-5 of the greatest in its tensor: two steps of a few dozen float32
operations each, in another order."""

ROUNDING = 1e-6
"""A tensor whose greatest number is less than this of the greatest of its case is rounding and nothing else: a gradient
that is 0 in exact arithmetic, as that of the bias of an attention's keys, which softmax does not see. (Stock TensorFlow
computes 6e-5 for it where the case's greatest gradient is 770, and 2e-13 in float64.) HPU's must be as small."""

BOOKKEEPING = {"FOR_THE_HOST", "VARIANT", "CONTROL_FLOW", "CALL"}
"""Reasons of ops that do no arithmetic on tensors of the device: sizes, lists, calls."""


@dataclass(frozen=True)
class Ran:
    """What one device made of all cases, by "<family>/<name>": what `run.py` says and the numbers of its steps."""

    said: dict[str, dict[str, Any]]
    arrays: dict[str, list[Any]]


@functools.cache
def _ran(*cases: str) -> tuple[Ran, Ran] | str:
    """What HPU and stock TensorFlow say and compute; or why a process died, which the next test need not see again."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / f"{device}.npz") for device in ("hpu", "stock")]
        ran = []
        for device, path in zip(("hpu", "stock"), paths, strict=True):
            words = ["-m", "tests.keras_coverage.run", device, path, *cases]
            done = forked.run(words, environment(), timeout=600, hpu=device == "hpu")
            if done.returncode != 0:
                return f"exit code {done.returncode}: {done.stderr[-3000:]}"
            with np.load(path) as stored:
                arrays: dict[str, list[Any]] = {}
                for key in stored.files:  # in the order they were saved
                    arrays.setdefault(key.rsplit("/", 1)[0], []).append(stored[key])
            ran.append(Ran(json.loads(done.stdout.splitlines()[-1]), arrays))
    return ran[0], ran[1]


def results(*cases: str) -> tuple[Ran, Ran]:
    """What HPU and stock TensorFlow say and compute. Raises AssertionError if one of their processes died."""
    ran = _ran(*cases)
    assert not isinstance(ran, str), ran
    return ran


def check(case: str, ours: Ran, stock: Ran, on_cpu: Mapping[str, str]) -> None:
    """Raises AssertionError unless HPU gives stock TensorFlow's numbers and exactly the ops `on_cpu` ran on the CPU."""
    assert stock.said[case]["error"] is None, f"stock TensorFlow: {stock.said[case]['error']}"
    assert ours.said[case]["error"] is None, ours.said[case]["error"]
    got, want = ours.arrays[case], stock.arrays[case]
    assert len(got) == len(want) > 0
    largest = max((_largest(w) for w in want), default=0.0)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape and g.dtype == w.dtype
        if w.dtype.kind == "f":
            zero = _largest(w) < ROUNDING * largest
            np.testing.assert_allclose(g, w, rtol=RTOL, atol=ROUNDING * largest if zero else ATOL * _largest(w))
        else:
            np.testing.assert_array_equal(g, w)
    left = {op: why for op, why in ours.said[case]["on_cpu"] if why not in BOOKKEEPING}
    assert left.keys() == on_cpu.keys(), f"on the CPU: {left}"


def _largest(a: Any) -> float:
    return float(np.abs(a[np.isfinite(a)]).max(initial=0.0)) if a.dtype.kind == "f" else 0.0
