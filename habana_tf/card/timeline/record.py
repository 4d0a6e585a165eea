"""Switches the runtime's recording on and off, and reads what it recorded: events by thread.

The record is native (kernels/runtime/timeline.h): launches, kernel calls, programs asked for, graph passes, copies,
sums between processes, ops on the CPU.
"""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

_EVENT = struct.Struct("=qqqiiii")
"""`Event` of kernels/runtime/timeline.h."""


class EventKind(IntEnum):
    """What an event is; the numbers are the runtime's."""

    LAUNCH = 0
    KERNEL_CALL = 1
    RESOLVE = 2
    GRAPH_PASS = 3
    TO_CARD = 4
    FROM_CARD = 5
    ON_CARD = 6
    SUM = 7
    CPU_OP = 8


class TimelineEvent(NamedTuple):
    """Times are nanoseconds of CLOCK_MONOTONIC.

    subject: of a launch, a kernel call or a program asked for the program's number; of an op on the CPU the number of
    its name; else bytes. detail: of a launch its kernel calls, of a kernel call its number. threads: how many could
    take part. hbm: of a launch the MiB of simulated HBM that TensorFlow had taken by its end.
    """

    start: int
    end: int
    subject: int
    kind: int
    detail: int
    threads: int
    hbm: int


@dataclass(frozen=True)
class Thread:
    """The events of a thread, in the order in which they ended. id: as the system knows it; hash: as TensorFlow's
    profiler numbers it, some releases by the lower 32 bits alone."""

    id: int
    hash: int
    name: str
    events: tuple[TimelineEvent, ...]


@dataclass(frozen=True)
class Clock:
    """Where CLOCK_MONOTONIC stands against the time since 1970, both in nanoseconds. boot: of the host; processes of
    one boot share CLOCK_MONOTONIC."""

    monotonic: int
    realtime: int
    boot: str

    @classmethod
    def now(cls) -> Clock:
        return cls(time.monotonic_ns(), time.time_ns(), _boot())


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # a sandbox without /proc/sys: every process is a host of its own
        return f"unknown-{time.monotonic_ns()}"


@dataclass(frozen=True)
class Record:
    """What happened from `begin` to `end`, nanoseconds of CLOCK_MONOTONIC.

    programs, ops: names by number. dropped: events for which there was no memory.
    """

    begin: int
    end: int
    clock: Clock
    threads: tuple[Thread, ...]
    programs: dict[int, str] = field(default_factory=dict)
    ops: dict[int, str] = field(default_factory=dict)
    dropped: int = 0

    def events(self, kind: EventKind) -> list[TimelineEvent]:
        """All of one kind, by their start."""
        return sorted(e for thread in self.threads for e in thread.events if e.kind == kind)


class TimelineRecording:
    """Records from its making to `stop`. Several may be under way."""

    def __init__(self) -> None:
        from habana_tf._native import _bridge

        self.clock = Clock.now()
        self.begin: int = _bridge.start_recording()
        self._running = True

    def read(self) -> Record:
        """What was recorded so far. Raises ValueError after `stop`."""
        from habana_tf._native import _bridge

        if not self._running:
            raise ValueError("this recording was stopped and its events are gone: call read() before stop()")
        threads, programs, ops, dropped = _bridge.read_record(self.begin)
        found = tuple(
            Thread(id_, other, name, tuple(map(TimelineEvent._make, _EVENT.iter_unpack(data))))
            for id_, other, name, data in threads
        )
        return Record(self.begin, time.monotonic_ns(), self.clock, found, programs, ops, dropped)

    def stop(self) -> None:
        """Ends it. A second call does nothing."""
        from habana_tf._native import _bridge

        if self._running:
            self._running = False
            _bridge.stop_recording()
