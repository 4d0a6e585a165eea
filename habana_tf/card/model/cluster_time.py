"""How long a card takes for one lowered cluster, engine by engine.

    a cluster   the longest of MME, TPC and HBM, each with all of its work
              + what is not hidden of the second longest
              + a pause for each unit
    a unit      the same of its engine and its HBM traffic

MME, TPC and HBM work side by side: traffic for the next units is on its way while an engine computes. The sum of the
units is therefore more than the cluster; `hidden` is the difference.

Where the order of units matters (when gradients are ready, what is in memory), it is the order of the longest path.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from habana_tf.card.model.attention import causal
from habana_tf.card.model.bundles import bundles, room, traffic
from habana_tf.card.model.kernels import Unit, cut
from habana_tf.card.model.matrix_time import MatrixTime, Product, matrix_time, product
from habana_tf.card.model.parameters import Parameters
from habana_tf.card.model.vector_time import vector_seconds
from habana_tf.hardware.chips import Chip
from habana_tf.ir.loop_nest import as_number
from habana_tf.ir.primitives import Loop, Node, Op, Program

OPERANDS = 2
"""Of a product, that share the SRAM, each with its two slices."""


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
    pause: float

    @property
    def engine(self) -> str:
        return "MME" if self.unit.product else "TPC"

    @property
    def bound(self) -> str:
        """What bounds it: MME, TPC, memory or launch."""
        longest = max(self.busy, self.memory)
        if self.pause > longest:
            return "launch"
        return self.engine if self.busy >= self.memory else "memory"


@dataclass(frozen=True)
class ClusterTime:
    """A cluster on a chip. seconds: of all of it."""

    units: list[UnitTime]
    seconds: float

    @cached_property
    def busy(self) -> tuple[float, float, float]:
        """Seconds of MME, TPC and HBM, each by itself."""
        matrix = sum(u.busy for u in self.units if u.unit.product)
        vector = sum(u.busy for u in self.units if not u.unit.product)
        return matrix, vector, sum(u.memory for u in self.units)

    @cached_property
    def matrix(self) -> float:
        return sum(u.seconds for u in self.units if u.unit.product)

    @cached_property
    def vector(self) -> float:
        return sum(u.seconds for u in self.units if not u.unit.product)

    @property
    def hidden(self) -> float:
        """Seconds of units behind the work of others."""
        return self.matrix + self.vector - self.seconds

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
    per cycle, for a loop 0), bytes of HBM, operations of products. streamed: of a product, whether neither an operand
    nor the result stays in SRAM; attention: whether it belongs to a causal attention; alone: whether it is a product
    beside which no other is under way, as the only one of a program."""

    unit: Unit
    bundle: int
    engine: float
    hbm_bytes: int
    flops: int
    matrix: MatrixTime | None
    streamed: bool
    attention: bool
    alone: bool = False


@functools.lru_cache(maxsize=32)
def work(chip: Chip, program: Program, results: frozenset[Node]) -> tuple[UnitWork, ...]:
    """The units of a lowered cluster whose extents are numbers. results: what its ops give."""
    units = cut(program, set(results))
    home = bundles(units)
    moved = traffic(chip, program, units, home)
    attention = causal(units)[0]
    alone = sum(u.product for u in units) == 1
    found = (_work(chip, u, home[u.index], moved[u.index], u.index in attention) for u in units)
    return tuple(replace(w, alone=True) if alone and w.unit.product else w for w in found)


def _work(chip: Chip, unit: Unit, bundle: int, hbm_bytes: int, attention: bool) -> UnitWork:
    first = unit.results[0]
    if unit.product:
        p = replace(product(first), out_bytes=min(n.dtype.bytes for n in unit.results))
        matrix = matrix_time(chip, p)
        # arrays that wait for their SRAM do so in all products: `matrix_time` counts that
        streamed = not attention and chip.mme_fed and _least(p) > room(chip) / OPERANDS
        return UnitWork(unit, bundle, matrix.seconds, hbm_bytes, p.flops, matrix, streamed, attention)
    seconds = 0.0 if first.op is Op.LOOP else vector_seconds(chip, unit)
    return UnitWork(unit, bundle, seconds, hbm_bytes, 0, None, False, attention)


def _least(p: Product) -> int:
    """Bytes of the smallest of a product's operands and its result."""
    sides = (p.rows * p.common * p.in_bytes, p.common * p.columns * p.in_bytes, p.rows * p.columns * p.out_bytes)
    return p.batch * min(sides)


def cluster_time(
    chip: Chip, program: Program, results: frozenset[Node], parameters: Parameters, chain: bool = False
) -> ClusterTime:
    """The time of one launch of a lowered cluster; arguments as for `work`. chain: whether each bundle waits for the
    one before it, as in the forward pass of a network without branches: engines and memory then work side by side
    within a bundle only, and each product is as fast as a single one."""
    return work_time(chip, work(chip, program, results), parameters, chain)


def work_time(
    chip: Chip, found: Sequence[UnitWork], parameters: Parameters, chain: bool = False
) -> ClusterTime:  # fmt: skip
    """The time of a cluster with such units; see `cluster_time`."""
    timed = [_timed(chip, replace(w, alone=True) if chain else w, parameters) for w in found]
    if not chain:
        return ClusterTime(timed, together(timed, parameters))
    links: dict[int, list[UnitTime]] = {}
    for unit in timed:
        links.setdefault(unit.bundle, []).append(unit)
    return ClusterTime(timed, sum(together(units, parameters) for units in links.values()))


def together(units: Sequence[UnitTime], parameters: Parameters) -> float:
    """Seconds of units whose engines and memory work side by side."""
    matrix = sum(u.busy for u in units if u.unit.product)
    vector = sum(u.busy for u in units if not u.unit.product)
    return side_by_side(matrix, vector, sum(u.memory for u in units), parameters) + parameters.launch * len(units)


def side_by_side(matrix: float, vector: float, memory: float, parameters: Parameters) -> float:
    """Seconds of work of MME, TPC and HBM, which is together but for a share of the second longest."""
    _, second, longest = sorted((matrix, vector, memory))
    return longest + (1 - parameters.hidden) * second


def _timed(chip: Chip, w: UnitWork, parameters: Parameters) -> UnitTime:
    first, flops = w.unit.results[0], w.flops
    if first.op is Op.LOOP:
        busy, flops = _loop(chip, first, parameters)
    else:
        busy = w.engine / _rate(chip, w, parameters) * (parameters.attention if w.attention else 1.0)
    memory = w.hbm_bytes / chip.hbm_bandwidth
    seconds = side_by_side(busy, 0.0, memory, parameters) + parameters.launch
    return UnitTime(w.unit, w.bundle, busy, memory, seconds, w.hbm_bytes, flops, w.matrix, parameters.launch)


def _rate(chip: Chip, w: UnitWork, parameters: Parameters) -> float:
    """Share of its engine's peak that a unit reaches."""
    if not w.unit.product:
        return parameters.tpc_rate
    if w.alone:
        return chip.mme_sustained
    return (parameters.streamed if w.streamed else 1.0) * (parameters.gaudi3 if chip.mme_held_back else 1.0)


def _loop(chip: Chip, n: Node, parameters: Parameters) -> tuple[float, int]:
    """Seconds and operations of a loop: those of its body times its trips. All outputs of a loop are one loop, counted
    with the first."""
    loop: Loop
    loop, which = n.arg
    if which:
        return 0.0, 0
    body = cluster_time(chip, loop.body, frozenset(), parameters)
    trips = as_number(loop.trips)
    return trips * body.seconds, trips * sum(u.flops for u in body.units)
