"""One capture at a time, begun and ended by the program, and written as Chrome trace events when it ends.

Habana's `py_synapse_logger` and `synapse_logger_helpers` use it.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from habana_tf.card.timeline.record import TimelineRecording
from habana_tf.hardware import ranks

_MOST_MARKS = 10_000


class CaptureError(RuntimeError):
    """`end` without `begin`."""


class Capture:
    """What is recorded between `begin` and `end`, with marks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recording: TimelineRecording | None = None
        self._marks: list[tuple[str, int]] = []

    @property
    def running(self) -> bool:
        """Whether it was begun and not ended."""
        return self._recording is not None

    def begin(self) -> None:
        """Begins it anew: what was recorded before is thrown away."""
        with self._lock:
            if self._recording is not None:
                self._recording.stop()
            self._recording, self._marks = TimelineRecording(), []

    def mark(self, text: str) -> None:
        """A mark at this moment; of more than ten thousand the first are kept. Nothing where no capture runs."""
        if self._recording is not None and len(self._marks) < _MOST_MARKS:
            self._marks.append((text, time.monotonic_ns()))

    def end(self, path: str | Path) -> Path:
        """Writes it. Raises CaptureError where none runs, and OSError."""
        from habana_tf.card.timeline import chrome, part

        with self._lock:
            recording, self._recording = self._recording, None
            if recording is None:
                raise CaptureError(f"nothing to write to {path}: no capture was begun")
            made = part.make(recording.read(), marks=self._marks)
            recording.stop()
        chrome.write([made], path)
        return Path(path)


def file_of_rank() -> str:
    """The file name that Habana used for the log of a rank."""
    return f"worker{ranks.here().rank}.local.synapse_log"


def file_of_step(step: int) -> str:
    """The file name that Habana used for the log of one step of a rank."""
    return f"worker_{ranks.here().rank}_step_{step}.local.synapse_log"
