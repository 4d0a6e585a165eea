"""Switches Python's garbage collector off while a cluster is compiled.

A compilation makes objects by the hundred thousand and drops nearly all of them when it ends. Meanwhile the collector
would go several times through everything else that lives, TensorFlow's modules and the user's model: a fifth of the
time to compile ResNet-50's step, and nothing found.
"""

from __future__ import annotations

import gc
import os
import threading
from contextlib import ContextDecorator
from types import TracebackType


class _Held(ContextDecorator):
    """A context manager and a decorator: the collector rests while any thread is inside, and is then as it was."""

    def __init__(self) -> None:
        self._free()

    def _free(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._was_on = False

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._was_on = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._was_on:
                gc.enable()

    def in_child(self) -> None:
        """A forked child has none of the threads that were inside."""
        if self._inside and self._was_on:
            gc.enable()
        self._free()


held = _Held()
os.register_at_fork(after_in_child=held.in_child)
