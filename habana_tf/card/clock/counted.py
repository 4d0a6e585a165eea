"""What native code counted in this process: launches of each program, and what was done between launches.

A launch only adds to counters of its program (kernels/runtime/launched.h). A report is made of the difference of two
readings.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from habana_tf.hardware import device_state


@dataclass(frozen=True)
class Launches:
    """Of one program. number: see `resolver.programs`; 0 stands for all programs that were dropped too long ago to be
    listed. seconds: that its launches took on this host. ended: nanoseconds of CLOCK_MONOTONIC, of the last one."""

    number: int
    name: str
    launches: int
    seconds: float
    ended: int


@dataclass(frozen=True)
class LaunchCounts:
    """begin, at: from when to when, in nanoseconds of CLOCK_MONOTONIC. programs: by number. counters: the runtime's, by
    name (kernels/runtime/counters.h). cpu_ops: op -> (how many, seconds) that TensorFlow's CPU kernels ran for HPU."""

    begin: int
    at: int
    programs: Mapping[int, Launches] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    cpu_ops: Mapping[str, tuple[int, float]] = field(default_factory=dict)

    def after(self, before: LaunchCounts) -> LaunchCounts:
        """What was counted from the end of an earlier reading on."""
        programs = {}
        earlier = _merged(before.programs, self.programs)
        for number, new in self.programs.items():
            old = earlier.get(number)
            if old is None:
                programs[number] = new
            elif new.launches > old.launches:
                launches, seconds = new.launches - old.launches, new.seconds - old.seconds
                programs[number] = replace(new, launches=launches, seconds=seconds)
        counters = {name: n - before.counters.get(name, 0) for name, n in self.counters.items()}
        cpu_ops = {}
        for op, (count, seconds) in self.cpu_ops.items():
            known, spent = before.cpu_ops.get(op, (0, 0.0))
            if count > known:
                cpu_ops[op] = count - known, seconds - spent
        return LaunchCounts(before.at, self.at, programs, counters, cpu_ops)

    @property
    def launches(self) -> int:
        """Of all programs."""
        return sum(p.launches for p in self.programs.values())

    @property
    def window(self) -> float:
        """Seconds from the beginning to the end of the last launch; 0 without one."""
        return max(0, max((p.ended for p in self.programs.values()), default=self.begin) - self.begin) / 1e9

    @property
    def launched_seconds(self) -> float:
        """That all launches took on this host; more than the window where threads launch side by side."""
        return sum(p.seconds for p in self.programs.values())


def _merged(before: Mapping[int, Launches], known: Mapping[int, Launches]) -> dict[int, Launches]:
    """An earlier reading, with the programs that are no longer listed added to number 0."""
    out = {number: each for number, each in before.items() if number in known}
    lost = [each for number, each in before.items() if number not in known]
    if lost and 0 in known:
        all_ = [*lost, *([out[0]] if 0 in out else [])]
        out[0] = Launches(
            0, "", sum(x.launches for x in all_), sum(x.seconds for x in all_), max(x.ended for x in all_)
        )
    return out


def now() -> LaunchCounts:
    """Everything counted since HPU was loaded."""
    from habana_tf._native import _bridge

    programs = {
        number: Launches(number, name, launches, nanoseconds / 1e9, ended)
        for number, name, launches, nanoseconds, ended in _bridge.launched()
    }
    cpu_ops = {op: (count, nanoseconds / 1e9) for op, (count, nanoseconds) in _bridge.cpu_ops().items()}
    at = time.monotonic_ns()
    return LaunchCounts(device_state.loaded_at() or at, at, programs, _bridge.counters(), cpu_ops)


def since_loading() -> LaunchCounts:
    """A reading of the moment when HPU was loaded: nothing was counted before it."""
    begin = device_state.loaded_at() or time.monotonic_ns()
    return LaunchCounts(begin, begin)
