"""Parts as processes leave them, made by hand: two launches of a program of two kernels."""

from __future__ import annotations

import copy
from typing import Any

MS = 1_000_000
"""Nanoseconds."""
KERNELS = [
    {"name": "net/dense/MatMul", "op": "MatMul", "engine": "MME", "does": "contract", "shape": [64, 20], "fused": {},
     "ops": ["MatMul net/dense/MatMul"], "flops": 76800, "bytes": 15200, "times": 1, "calls": [0, 1]},
    {"name": "net/dense/Relu", "op": "Relu", "engine": "TPC", "does": "map", "shape": [64, 20], "fused": {"max": 1},
     "ops": ["Relu net/dense/Relu"], "flops": 1280, "bytes": 10240, "times": 1, "calls": [1, 2]},
]  # fmt: skip
CARD = {
    "seconds": 3e-6, "hidden": 0.0, "drawn": 1.0, "why": "",
    "intervals": [
        {"engine": "MME", "start": 0.0, "seconds": 2e-6, "name": "net/dense/MatMul", "op": "MatMul", "bundle": 0,
         "ops": ["MatMul net/dense/MatMul"], "bound": "MME", "flops": 76800, "nbytes": 15200},
        {"engine": "TPC", "start": 2e-6, "seconds": 1e-6, "name": "net/dense/Relu", "op": "Relu", "bundle": 0,
         "ops": ["Relu net/dense/Relu"], "bound": "launch", "flops": 1280, "nbytes": 10240},
    ],
    "bundles": [{"start": 0.0, "seconds": 3e-6, "name": "net/dense/MatMul"}],
    "use": [{"at": 0.0, "hbm": 15200, "sram": 5120}, {"at": 2e-6, "hbm": 20000, "sram": 0}],
    "results": [{"at": 3e-6, "nbytes": 5120}],
}  # fmt: skip
"""As `timeline.intervals` has it."""


def part(rank: int = 0, size: int = 1, boot: str = "b", monotonic: int = 0, realtime: int = 10**18) -> dict[str, Any]:
    """A rank whose recording began 1 ms after its clocks stood at these nanoseconds. In the ms after that Python was
    asked for the program, then there are two launches of 1 ms with 1 ms between them, and a copy in that."""
    at = monotonic + MS
    events = [
        [at, at + MS, 7, 2, 0, 1, 0],
        [at + MS, at + MS + 600_000, 7, 1, 0, 2, 0],
        [at + MS + 600_000, at + 2 * MS, 7, 1, 1, 2, 0],
        [at + MS, at + 2 * MS, 7, 0, 2, 2, 5],
        [at + 2 * MS, at + 2 * MS + 1000, 4096, 4, 0, 1, 0],
        [at + 3 * MS, at + 4 * MS, 7, 0, 2, 2, 5],
    ]
    return {
        "rank": rank, "size": size, "pid": 100 + rank, "host": f"host-{boot}", "command": "train.py", "chip": "gaudi2",
        "horovod": False, "tensorflow": "2.15.1", "clock": {"monotonic": monotonic, "realtime": realtime, "boot": boot},
        "begin": at, "end": at + 5 * MS,
        "threads": [{"id": 900 + rank, "hash": 5000 + rank + 2**40, "name": "python", "events": events}],
        "programs": {"7": {"name": "step", "how": "compiled", "seconds": 0.001, "kernels": KERNELS,
                           "hbm": [15200, 20000, 20000], "card": copy.deepcopy(CARD)}},
        "ops": {}, "cpu": [], "marks": [["epoch", at + 2 * MS]], "dropped": 0, "basis": "a test",
    }  # fmt: skip
