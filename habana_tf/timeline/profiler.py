"""What native code asks of Python for TensorFlow's profiler (kernels/plugin/profiler.cc): a session begins and ends."""

from __future__ import annotations

from .record import Recording

__all__ = ["start", "stop"]

_recording: Recording | None = None


def start() -> None:
    """A session of TensorFlow's profiler begins: launches are recorded."""
    global _recording
    if _recording is not None:  # TensorFlow gave up the last session without ending it
        _recording.stop()
    _recording = Recording()


def stop() -> bytes:
    """It ends: what was recorded, as a serialized XSpace; nothing where no session was begun."""
    global _recording
    recording, _recording = _recording, None
    if recording is None:
        return b""
    from habana_tf.hardware.chips import chip

    from . import part, xspace

    made = part.make(recording.read())
    recording.stop()
    return xspace.space(made, chip().hbm_bandwidth, chip().hbm_bytes)
