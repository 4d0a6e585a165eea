"""Whether this process has the device HPU, and since when: front ends say so, all others ask here.

Also the error that says why it has not."""

from __future__ import annotations

import time

_loaded_at: dict[str, int] = {}
TENSORFLOW, PYTORCH = "TensorFlow", "PyTorch"


class LoadError(RuntimeError):
    """HPU could not be made available; the message says what to do."""


def is_loaded(front_end: str = TENSORFLOW) -> bool:
    """Whether a framework has the device in this process: for TensorFlow `load_habana_module()` has succeeded."""
    return front_end in _loaded_at


def loaded_at() -> int | None:
    """When the first framework got it, in nanoseconds of CLOCK_MONOTONIC; None before."""
    return min(_loaded_at.values(), default=None)


def set_loaded(front_end: str = TENSORFLOW) -> None:
    """The device is there from now on: frameworks unload none."""
    _loaded_at.setdefault(front_end, time.monotonic_ns())
