"""The holder of each card, and its telemetry.

What: `holder(module_id)` asks the kernel which process has the lock, then reads the page that native code writes
(kernels/runtime/card.h, the same layout). That costs two system calls and imports neither TensorFlow nor NumPy.

Invariant: a page is valid only while its card's lock is held, and only if it names the process that holds it.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import time
from dataclasses import dataclass

from habana_tf.files.escaped import escaped
from habana_tf.hardware import machine

_PAGE = 4096
_VERSION = 2
_WINDOW = 100_000_000
_WINDOWS = 16
_FLOCK = struct.Struct("hhqqi0q")
_SECOND = 1_000_000_000


_RECORD = struct.Struct(f"<Q13q32s384s{_WINDOWS}Q")
"""CardRecord of kernels/runtime/card.h."""


@dataclass(frozen=True)
class Telemetry:
    """The telemetry of a card's holder.

    since: seconds since the epoch; chip: its name as in HABANA_SIM_CHIP; memory, memory_peak and hbm_bytes: bytes of
    HBM its allocator has taken, the most of it, and the capacity; launches, steps, recipes, recompiled, hits: counts
    since the process began, of launches, of repetitions of what updates variables (CountUpdate in
    kernels/runtime/card.h), of recipes that were compiled, of these for other sizes or values of a cluster, and of
    recipes that the recipe cache had; busy: seconds during which at least one launch ran; utilization: the part of
    the last second, 0 to 1.
    """

    since: float
    chip: str
    command: str
    hbm_bytes: int
    memory: int
    memory_peak: int
    launches: int
    steps: int
    recipes: int
    recompiled: int
    hits: int
    busy: float
    utilization: float


NOTHING = Telemetry(0.0, "", "", 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0)
"""Of a process that has not said anything yet."""


@dataclass(frozen=True)
class Holder:
    """The process that holds a card. telemetry is None in the instant before it publishes, or when it cannot (no
    room on the file system, or another version of this package). pid is 0 for a process of another container."""

    module_id: int
    pid: int
    telemetry: Telemetry | None


def holder(module_id: int) -> Holder | None:
    """The holder of a card, or None when it is free. Raises machine.MachineError."""
    descriptor = machine.for_reading()
    if descriptor is None:
        return None
    try:
        pid = _lock_owner(descriptor, module_id)
        if pid is None:
            return None
        data = os.pread(descriptor, _PAGE, _PAGE * (1 + module_id))
    except OSError as error:
        raise machine.MachineError(
            f"the simulated machine {machine.directory()} cannot be used: {error}. Set HABANA_SIM_STATE_DIR to a "
            "directory on a local file system with record locks"
        ) from error
    return Holder(module_id, pid, _telemetry(data, pid, time.monotonic_ns()))


def held_here() -> int | None:
    """The module id of the card this process holds."""
    bridge = sys.modules.get("habana_tf._native._bridge")
    held = -1 if bridge is None else bridge.held_card()
    return None if held < 0 else held


def _lock_owner(descriptor: int, module_id: int) -> int | None:
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, module_id, 1, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    if kind != fcntl.F_UNLCK:
        return max(0, pid)
    return os.getpid() if held_here() == module_id else None  # the kernel does not show us our own lock


def _telemetry(data: bytes, pid: int, now: int) -> Telemetry | None:
    if len(data) < _RECORD.size:
        return None
    version, publisher, claimed_at, hbm_bytes, memory, peak, launches, steps, *rest = _RECORD.unpack_from(data)
    recipes, recompiled, hits, busy, active, busy_since, chip, command, *windows = rest
    if version != _VERSION or (pid and publisher != pid):
        return None
    running = max(0, now - busy_since) if active > 0 else 0
    return Telemetry(
        since=claimed_at / _SECOND,
        chip=_text(chip),
        command=_text(command),
        hbm_bytes=hbm_bytes,
        memory=memory,
        memory_peak=peak,
        launches=launches,
        steps=steps,
        recipes=recipes,
        recompiled=recompiled,
        hits=hits,
        busy=(busy + running) / _SECOND,
        utilization=_utilization(windows, running, now),
    )


def _text(field: bytes) -> str:
    return escaped(field.partition(b"\0")[0].decode(errors="replace"))


def _utilization(windows: list[int], running: int, now: int) -> float:
    """Busy part of the second before `now`: closed busy times by window, and the one that runs."""
    start = now - _SECOND
    busy = float(min(running, _SECOND))
    for number in range(start // _WINDOW, now // _WINDOW + 1):
        word = windows[number % _WINDOWS]
        if word >> 32 == number & 0xFFFFFFFF:
            inside = 1.0 if number * _WINDOW >= start else ((number + 1) * _WINDOW - start) / _WINDOW
            busy += (word & 0xFFFFFFFF) * inside
    return min(1.0, busy / _SECOND)
