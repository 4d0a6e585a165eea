"""The timeline of a whole process, from the loading of HPU to its end: for `habana-tf trace` and for HABANA_PROFILE.

Under `habana-tf trace` the process writes its part to the folder that HABANA_SIM_TRACE_PARTS names, and the command
makes one file of all parts. With HABANA_PROFILE the process itself writes a file of Chrome trace events, named as
Habana's was.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from habana_tf import settings
from habana_tf.card.timeline.record import TimelineRecording


class CpuOps(Protocol):
    """What notes ops of TensorFlow on the CPU, see `cpu_ops.CpuOps`."""

    def stop(self) -> list[tuple[str, str, int, int]]: ...


_log = logging.getLogger("habana_tf")
_recording: TimelineRecording | None = None
_cpu_ops: CpuOps | None = None


def begin(cpu_ops: Callable[[], CpuOps] | None = None) -> None:
    """Starts the timeline of the process, if it is wanted and not under way; it is written when the process ends.

    cpu_ops: starts to note what TensorFlow runs on the CPU; None where it is another framework's process."""
    global _recording, _cpu_ops
    wanted = settings.HABANA_SIM_TRACE_PARTS.get() is not None or settings.HABANA_PROFILE.get() == "on"
    if not wanted or _recording is not None:
        return
    _recording = TimelineRecording()
    if settings.HABANA_SIM_TRACE_CPU.get() and cpu_ops is not None:
        _cpu_ops = cpu_ops()
    atexit.register(_finish)


def file_of_profile() -> Path:
    """Where HABANA_PROFILE writes: default_profiling_<pid>.json in the working directory."""
    return Path(f"default_profiling_{os.getpid()}.json")


def _finish() -> None:
    """Writes what was recorded. An error is a warning and not raised, because the program itself is done."""
    global _recording
    recording, _recording = _recording, None
    if recording is None:
        return
    # Here, because they import the compiler's modules, which a process that records nothing may not need.
    from habana_tf.card.timeline import chrome, folder, part

    try:
        record = recording.read()
        ops = _cpu_ops.stop() if _cpu_ops is not None else []
        mine = part.make(record, ops)
        recording.stop()
        parts = settings.HABANA_SIM_TRACE_PARTS.get()
        if parts is not None:
            folder.write(mine, parts)
            return
        path = file_of_profile()
        chrome.write([mine], path)
        _log.info("HABANA_PROFILE: the timeline of this process is in %s; ui.perfetto.dev shows it", path.resolve())
    except OSError as error:
        _log.warning("the timeline of this process could not be written: %s", error)
