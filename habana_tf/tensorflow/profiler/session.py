"""Callbacks for TensorFlow's profiler (kernels/plugin/profiler.cc): a session begins, and a session ends."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from habana_tf.card.timeline.record import TimelineRecording

_recording: TimelineRecording | None = None
_begin = 0


def start() -> None:
    """A session of TensorFlow's profiler begins: launches are recorded."""
    global _recording, _begin
    if _recording is not None:  # TensorFlow gave up the last session without ending it
        _recording.stop()
    _recording = TimelineRecording()
    _begin = _recording.begin


def last_begin() -> int:
    """When the last session began, in nanoseconds of CLOCK_MONOTONIC; 0 before the first."""
    return _begin


def stop() -> bytes:
    """It ends: what was recorded, as a serialized XSpace; nothing where no session was begun."""
    global _recording
    recording, _recording = _recording, None
    if recording is None:
        return b""
    from habana_tf.card.timeline import part, xspace
    from habana_tf.hardware.chips import chip

    made = part.make(recording.read())
    recording.stop()
    return xspace.space(made, chip().hbm_bandwidth, chip().hbm_bytes, _wide_thread_numbers())


@functools.cache
def _wide_thread_numbers() -> bool:
    """Whether TensorFlow's profiler numbers threads by 64 bits: what the header in its wheel says. 2.15 takes 32, 2.21
    takes 64."""
    import tensorflow as tf

    include = Path(tf.sysconfig.get_include())
    for place in ("xla/tsl/platform/env.h", "tsl/platform/env.h", "tensorflow/tsl/platform/env.h"):
        path = include / place
        found = re.search(
            r"virtual int(32|64)(?:_t)? GetCurrentThreadId\(\)", path.read_text() if path.exists() else ""
        )
        if found is not None:
            return found[1] == "64"
    return True
