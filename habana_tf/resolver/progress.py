"""Shows on a terminal that a long compilation goes on: a line that counts the seconds, from the tenth on.

A file or a pipe gets nothing: there the line that says how long it took is enough (see `recipes`).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

AFTER = 10.0
"""Seconds of a compilation before anything is shown."""
EVERY = 1.0


@contextmanager
def shown(what: str) -> Iterator[None]:
    """Around a compilation. what: what is compiled, for people. The line is gone when it ends. Where it cannot be shown
    the compilation goes on without."""
    ended = threading.Event()
    thread = threading.Thread(target=_count, args=(what, ended, time.monotonic()), daemon=True)
    try:
        counted = bool(sys.stderr.isatty())
        if counted:
            thread.start()
    except (AttributeError, ValueError, OSError, RuntimeError):  # no stream or a closed one; no thread to be had
        counted = False
    try:
        yield
    finally:
        ended.set()
        if counted:
            thread.join()


def _count(what: str, ended: threading.Event, begin: float) -> None:
    with suppress(OSError, ValueError):  # a terminal that hung up
        _draw(what, ended, begin)


def _draw(what: str, ended: threading.Event, begin: float) -> None:
    """Redraws the line until the end, and takes it away."""
    if ended.wait(AFTER):
        return
    line = ""
    while True:
        line = f"habana_tf: compiling {what}: {time.monotonic() - begin:.0f} s"
        sys.stderr.write(f"\r{line}")
        sys.stderr.flush()
        if ended.wait(EVERY):
            break
    sys.stderr.write("\r" + " " * len(line) + "\r")
    sys.stderr.flush()
