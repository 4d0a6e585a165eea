"""The bytes of HBM and SRAM that a launch uses at every moment, on the schedule of its engines.

A tensor is held from the beginning of the unit that makes it to the end of the last unit that reads it. In HBM: the
cluster's inputs all the time (a card updates variables in place, so their new values take no memory of their own),
tensors that leave the cluster until its end, and all others except those that HBM never sees. In SRAM: the slices that
are handed on within a bundle, while the part of the bundle that made them works.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from habana_tf.card.model.bundles import near, parts, sram_bytes, unwritten
from habana_tf.card.model.cluster_time import ClusterTime
from habana_tf.card.model.engine_schedule import EngineSchedule
from habana_tf.card.model.kernels import behind_views, nbytes
from habana_tf.card.model.lowered import Lowered
from habana_tf.card.model.memory import new_values
from habana_tf.hardware.chips import Chip
from habana_tf.ir.primitives import Node


@dataclass(frozen=True)
class InUse:
    """From `at` on (seconds from the launch's beginning) so many bytes are in use."""

    at: float
    hbm: int
    sram: int


def in_use(chip: Chip, lowered: Lowered, time: ClusterTime, on: EngineSchedule) -> list[InUse]:
    """The moments at which it changes, in order; the first is the beginning."""
    units = [u.unit for u in time.units]
    home = [u.bundle for u in time.units]
    inside, stays = near(chip, units, home), unwritten(chip, lowered.program, units, home)
    ends = [at + took for at, took in zip(on.starts, on.seconds, strict=True)]
    last_read: dict[Node, float] = defaultdict(float)
    last_near: dict[Node, float] = defaultdict(float)
    part = parts(units, home, on.starts, on.seconds)
    maker = {n: unit.index for unit in units for n in unit.results}
    for unit in units:
        for tensor in unit.loads:
            last_read[tensor] = max(last_read[tensor], ends[unit.index])
            if tensor in inside[unit.index] and part[maker[tensor]] == part[unit.index]:
                last_near[tensor] = max(last_near[tensor], ends[unit.index])
    leaving, updated = behind_views(lowered.program.outputs), new_values(lowered)
    changes: dict[float, list[int]] = defaultdict(lambda: [0, 0])

    def held(which: int, bytes_: int, begin: float, end: float) -> None:
        changes[begin][which] += bytes_
        changes[end][which] -= bytes_

    for unit in units:
        for tensor in unit.stores:
            begin, end = on.starts[unit.index], max(last_read[tensor], ends[unit.index])
            if tensor not in updated and tensor not in stays and tensor not in unit.in_place:
                held(0, nbytes(tensor), begin, max(ends) if tensor in leaving else end)
            if tensor in last_near:
                held(1, sram_bytes(chip, tensor), begin, last_near[tensor])
    inputs = zip(lowered.cluster.inputs, lowered.program.inputs, strict=True)
    hbm, sram = sum(nbytes(n) for arg, n in inputs if not arg.host), 0
    out = [InUse(0.0, hbm, 0)]
    for at in sorted(changes):
        hbm, sram = hbm + changes[at][0], sram + changes[at][1]
        now = InUse(at, hbm, min(sram, chip.sram_bytes - chip.sram_reserved_bytes))
        out[-1:] = [now] if at == out[-1].at else [out[-1], now]
    return out
