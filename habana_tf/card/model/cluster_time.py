"""How long a card takes for one lowered cluster, engine by engine.

    seconds of a unit     the longer of its engine's work and its HBM traffic, and the pause between two launches
    seconds of a cluster  MME units + TPC units - a share of the shorter of the two, which overlaps with the longer

Where the order of units matters (when gradients are ready, what is in memory), it is the order of the longest path.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from functools import cached_property

from habana_tf.card.model.bundles import bundles, traffic
from habana_tf.card.model.kernels import Unit, cut
from habana_tf.card.model.matrix_time import MatrixTime, matrix_time, product
from habana_tf.card.model.parameters import Parameters
from habana_tf.card.model.vector_time import vector_seconds
from habana_tf.hardware.chips import Chip
from habana_tf.ir.primitives import Loop, Node, Op, Program


@dataclass(frozen=True)
class UnitTime:
    """One product or kernel. busy: its engine's seconds; memory: those of its HBM traffic; seconds: what it takes."""

    unit: Unit
    bundle: int
    busy: float
    memory: float
    seconds: float
    hbm_bytes: int
    flops: int
    matrix: MatrixTime | None

    @property
    def engine(self) -> str:
        return "MME" if self.unit.product else "TPC"

    @property
    def bound(self) -> str:
        """What bounds it: MME, TPC, memory or launch."""
        longest = max(self.busy, self.memory)
        if self.seconds - longest > longest:
            return "launch"
        return self.engine if self.busy >= self.memory else "memory"


@dataclass(frozen=True)
class ClusterTime:
    """A cluster on a chip. hidden: seconds of one engine's work behind the other's."""

    units: list[UnitTime]
    hidden: float

    @cached_property
    def matrix(self) -> float:
        return sum(u.seconds for u in self.units if u.unit.product)

    @cached_property
    def vector(self) -> float:
        return sum(u.seconds for u in self.units if not u.unit.product)

    @property
    def seconds(self) -> float:
        return self.matrix + self.vector - self.hidden

    @cached_property
    def finished(self) -> list[float]:
        """When each unit is done: the longest path to it, scaled to the cluster's time."""
        at = [0.0] * len(self.units)
        maker = {n: u.unit.index for u in self.units for n in u.unit.results}
        for u in self.units:
            before = max((at[maker[t]] for t in u.unit.loads if t in maker), default=0.0)
            at[u.unit.index] = before + u.seconds
        longest = max(at, default=0.0)
        return [t * self.seconds / longest if longest else 0.0 for t in at]


@dataclass(frozen=True)
class UnitWork:
    """A unit's work on a chip, independent of the parameters: seconds of its engine (for a kernel at one instruction
    per cycle, for a loop 0), bytes of HBM, operations of products."""

    unit: Unit
    bundle: int
    engine: float
    hbm_bytes: int
    flops: int
    matrix: MatrixTime | None


@functools.lru_cache(maxsize=32)
def work(chip: Chip, program: Program, results: frozenset[Node]) -> tuple[UnitWork, ...]:
    """The units of a lowered cluster whose extents are numbers. results: what its ops give."""
    units = cut(program, set(results))
    home = bundles(units)
    moved = traffic(chip, program, units, home)
    return tuple(_work(chip, u, home[u.index], moved[u.index]) for u in units)


def _work(chip: Chip, unit: Unit, bundle: int, hbm_bytes: int) -> UnitWork:
    first = unit.results[0]
    if unit.product:
        p = product(first)
        matrix = matrix_time(chip, p)
        return UnitWork(unit, bundle, matrix.seconds, hbm_bytes, p.flops, matrix)
    seconds = 0.0 if first.op is Op.LOOP else vector_seconds(chip, unit)
    return UnitWork(unit, bundle, seconds, hbm_bytes, 0, None)


def cluster_time(chip: Chip, program: Program, results: frozenset[Node], parameters: Parameters) -> ClusterTime:
    """The time of one launch of a lowered cluster; arguments as for `work`."""
    timed = [_timed(chip, w, parameters) for w in work(chip, program, results)]
    matrix = sum(t.seconds for t in timed if t.unit.product)
    vector = sum(t.seconds for t in timed if not t.unit.product)
    return ClusterTime(timed, parameters.hidden * min(matrix, vector))


def _timed(chip: Chip, w: UnitWork, parameters: Parameters) -> UnitTime:
    first, flops = w.unit.results[0], w.flops
    if first.op is Op.LOOP:
        busy, flops = _loop(chip, first, parameters)
    else:
        busy = w.engine if w.unit.product else w.engine / parameters.tpc_rate
    memory = w.hbm_bytes / chip.hbm_bandwidth
    seconds = max(busy, memory) + parameters.launch
    return UnitTime(w.unit, w.bundle, busy, memory, seconds, w.hbm_bytes, flops, w.matrix)


def _loop(chip: Chip, n: Node, parameters: Parameters) -> tuple[float, int]:
    """Seconds and operations of a loop: those of its body times its trips. All outputs of a loop are one loop, counted
    with the first."""
    loop: Loop
    loop, which = n.arg
    if which:
        return 0.0, 0
    body = cluster_time(chip, loop.body, frozenset(), parameters)
    return loop.trips * body.seconds, loop.trips * sum(u.flops for u in body.units)
