"""Log lines of recompilations, at most one a second: what comes in between is summed up in one line.

    step met a new shape, input 'x' axis 1: 4 -> 5: compiled a recipe for this shape in 30 ms
    78 more recipes in 2.1 s of compiling: habana_tf.recompilation_report() lists them

The first tokens of a generation, or the first step of a loop over sizes, compile dozens within seconds.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time

log = logging.getLogger("habana_tf")

INTERVAL = 1.0
"""Seconds from a line to the next."""

_lock = threading.Lock()
_next = 0.0
_more, _seconds = 0, 0.0
_timer: threading.Timer | None = None


def say(line: str, seconds: float) -> None:
    """Logs a line, or counts it for the line that sums up. seconds: that the recipe took to compile."""
    global _next, _more, _seconds, _timer
    now = time.monotonic()
    with _lock:
        due = now >= _next and not _more
        if due:
            _next = now + INTERVAL
        else:
            _more, _seconds = _more + 1, _seconds + seconds
            if _timer is None:
                _timer = threading.Timer(max(_next - now, 0.0), sum_up)
                _timer.daemon = True
                _timer.start()
    if due:
        log.info("%s", line)


def sum_up() -> None:
    """Logs what was counted since the last line, if anything was."""
    global _next, _more, _seconds, _timer
    with _lock:
        more, seconds, _timer = _more, _seconds, None
        _more, _seconds = 0, 0.0
        if more:
            _next = time.monotonic() + INTERVAL
    if more:
        log.info(
            "%d more recipe%s in %.1f s of compiling: habana_tf.recompilation_report() lists them",
            more, "s" if more > 1 else "", seconds,
        )  # fmt: skip


atexit.register(sum_up)
