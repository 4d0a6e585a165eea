"""Whether this process has the device HPU, and since when: the loader says so, everybody else asks here.

Also the error that says why it has not."""

from __future__ import annotations

import time

_loaded_at: int | None = None


class LoadError(RuntimeError):
    """HPU could not be made available; the message says what to do."""


def is_loaded() -> bool:
    """Whether `load_habana_module()` has succeeded in this process."""
    return _loaded_at is not None


def loaded_at() -> int | None:
    """When it has, in nanoseconds of CLOCK_MONOTONIC; None before."""
    return _loaded_at


def set_loaded() -> None:
    """The device is there from now on: TensorFlow unloads none."""
    global _loaded_at
    if _loaded_at is None:
        _loaded_at = time.monotonic_ns()
