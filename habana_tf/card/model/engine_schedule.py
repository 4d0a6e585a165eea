"""When each engine of a card works during a launch: a list schedule of the units of work on two engines, MME and TPC.

`ClusterTime` says how long a launch takes and how much of both engines' work overlaps (`hidden`), but not when. Here
units are scheduled one after the other: next is the one that can begin first, of several the one with the longest path
behind it. Both engines work at the same time for no longer than the model says. To spread that overlap over the
launch, each unit may have at most a share of its own time beside the other engine; the least share that reaches the
overlap is found by bisection.

    MME  |conv1      |      |dX          |dW         |
    TPC         |sums|relu    |    |sums   |sums|

A product or a kernel hands its result on in `PIECES` slices: a reader begins after the first slice and ends after the
last. A sum over rows far apart, a scan, a sort or a loop hands its result on when it is done.

Invariants: units of one engine do not overlap; no unit begins before the first slice of what it reads, or ends before
the last; some engine works at every moment; the last unit ends when the launch does. Where the graph allows less
overlap than the model assumes, all units are shortened by one factor, `EngineSchedule.drawn`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass

from habana_tf.card.model.cluster_time import ClusterTime, UnitTime
from habana_tf.card.model.kernels import in_slices
from habana_tf.ir.primitives import Op

PIECES = 8
"""Slices in which a tensor is handed on. Source: none. A bundle has at least the two of `bundles.SLICES`; with more,
only the first and the last become shorter."""
_STEPS = 9
"""Halvings in the search for the least share: to a five-hundredth."""
_LOOK = 3
"""How many candidates are considered for the next unit: of those with the longest paths, and of those ready first."""


@dataclass(frozen=True)
class EngineSchedule:
    """starts, seconds: of each unit, by its index. overlap: seconds in which both engines work. drawn: what the units'
    own seconds were multiplied by; less than 1 only where the model hides more than the graph lets lie side by side."""

    starts: list[float]
    seconds: list[float]
    overlap: float
    drawn: float


class _Engine:
    """An engine's units in order of time, and how long it has worked at any moment."""

    def __init__(self) -> None:
        self.free = 0.0
        self.edges: list[float] = []
        """Beginnings and ends in turn."""
        self._worked: list[float] = []

    def add(self, start: float, seconds: float) -> None:
        before = self._worked[-1] if self._worked else 0.0
        self.edges += (start, start + seconds)
        self._worked += (before, before + seconds)
        self.free = start + seconds

    def worked(self, at: float) -> float:
        """Seconds of work before a moment."""
        k = bisect_right(self.edges, at) - 1
        if k < 0:
            return 0.0
        return self._worked[k] + (at - self.edges[k] if k % 2 == 0 else 0.0)

    def beside(self, start: float, seconds: float) -> float:
        """Seconds of work within a span."""
        return self.worked(start + seconds) - self.worked(start)

    def last(self, seconds: float) -> float:
        """The moment after which so many seconds of work are left; 0 if there are less."""
        before = (self._worked[-1] if self._worked else 0.0) - seconds
        k = bisect_left(self._worked, before)
        return self.edges[k] - (self._worked[k] - before) if 0 < k < len(self.edges) else 0.0


def engine_schedule(time: ClusterTime) -> EngineSchedule:
    reads = _reads(time.units)
    behind = _behind(time.units, reads)
    enough = time.hidden * (1 - 1e-9)
    starts, overlap = _placed(time.units, reads, behind, 1.0, time.hidden)
    if overlap < enough:
        whole = sum(u.seconds for u in time.units) - overlap
        drawn = time.seconds / whole
        return EngineSchedule(
            [at * drawn for at in starts], [u.seconds * drawn for u in time.units], overlap * drawn, drawn
        )
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        share = (low + high) / 2
        tried, reached = _placed(time.units, reads, behind, share, time.hidden)
        if reached < enough:
            low = share
        else:
            high, starts, overlap = share, tried, reached
    return EngineSchedule(starts, [u.seconds for u in time.units], overlap, 1.0)


def _behind(units: Sequence[UnitTime], reads: Sequence[Sequence[tuple[int, bool]]]) -> list[float]:
    """Seconds of the longest path from each unit's beginning to the end."""
    out = [u.seconds for u in units]
    for u in reversed(units):  # each comes behind all that it reads
        for maker, _ in reads[u.unit.index]:
            out[maker] = max(out[maker], units[maker].seconds + out[u.unit.index])
    return out


def _there(
    index: int, reads: Sequence[Sequence[tuple[int, bool]]], starts: Sequence[float], seconds: Sequence[float]
) -> float:
    """The earliest start of a unit at which it never waits for a slice of its inputs."""
    at = 0.0
    for maker, sliced in reads[index]:
        end = starts[maker] + seconds[maker]
        if sliced:
            end -= (1 - 1 / PIECES) * min(seconds[maker], seconds[index])
        at = max(at, end)
    return at


def _reads(units: Sequence[UnitTime]) -> list[list[tuple[int, bool]]]:
    """For each unit, by index, the units that it reads from, and whether slice by slice."""
    maker = {n: u.unit.index for u in units for n in u.unit.results}
    out: list[list[tuple[int, bool]]] = [[] for _ in units]
    for u in units:
        whole = any(n.op not in (Op.MAP, Op.REDUCE, Op.CONTRACT) for n in u.unit.inside)
        out[u.unit.index] = [(maker[t], not whole and in_slices(t)) for t in u.unit.loads if t in maker]
    return out


def _placed(
    units: Sequence[UnitTime], reads: Sequence[Sequence[tuple[int, bool]]], behind: Sequence[float], share: float,
    most: float,
) -> tuple[list[float], float]:  # fmt: skip
    """Starts by index, and how long both engines work. behind: see `_behind`; share: of a unit, that may lie beside the
    other engine's work; most: seconds of all together."""
    starts, seconds = [0.0] * len(units), [u.seconds for u in units]
    readers: list[list[int]] = [[] for _ in units]
    for index, makers in enumerate(reads):
        for maker, _ in makers:
            readers[maker].append(index)
    missing = [len(makers) for makers in reads]
    there = [0.0] * len(units)
    engines = {True: _Engine(), False: _Engine()}
    waiting: dict[bool, list[tuple[float, int]]] = {True: [], False: []}
    able: dict[bool, list[tuple[float, int]]] = {True: [], False: []}
    for index, count in enumerate(missing):
        if not count:
            insort(able[units[index].unit.product], (-behind[index], index))
    total = 0.0
    for _ in units:
        best: tuple[float, float, int] | None = None
        for product, lane in engines.items():
            while waiting[product] and waiting[product][0][0] <= lane.free:
                _, index = waiting[product].pop(0)
                insort(able[product], (-behind[index], index))
            for _, index in (*able[product][:_LOOK], *waiting[product][:_LOOK]):
                earliest, took = max(lane.free, there[index]), seconds[index]
                if best is None or earliest <= best[0]:
                    at = _first(engines[not product], earliest, took, min(share * took, most - total))
                    best = min(best or (at, -behind[index], index), (at, -behind[index], index))
        assert best is not None, "a unit reads what only comes behind it"
        at, _, index = best
        product = units[index].unit.product
        for those, key in ((able[product], -behind[index]), (waiting[product], there[index])):
            if (k := bisect_left(those, (key, index))) < len(those) and those[k] == (key, index):
                del those[k]
        total += engines[not product].beside(at, seconds[index])
        engines[product].add(at, seconds[index])
        starts[index] = at
        for reader in readers[index]:
            missing[reader] -= 1
            if not missing[reader]:
                there[reader] = _there(reader, reads, starts, seconds)
                insort(waiting[units[reader].unit.product], (there[reader], reader))
    return starts, total


def _first(other: _Engine, earliest: float, seconds: float, allowed: float) -> float:
    """The first moment, or nearly, from which a span of so many seconds overlaps the other engine's work by no more
    than `allowed`, and by that much if there is so much work."""
    beside = other.beside(earliest, seconds)
    if beside <= allowed:
        return earliest
    at = other.last(allowed)
    if at + seconds >= other.free:  # what lies beside it from there on is all that is left
        return max(at, earliest)
    k = bisect_right(other.edges, earliest)
    at = earliest
    later = set(other.edges[k:]) | {edge - seconds for edge in other.edges[k:]}
    for moment in sorted(m for m in later if m > earliest):
        then = other.beside(moment, seconds)
        if then <= allowed:  # in between it changes steadily
            return at + (moment - at) * (beside - allowed) / (beside - then)
        at, beside = moment, then
    return max(at, other.free)
