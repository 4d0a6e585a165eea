"""What a card would do during a launch, by `card.model`.

`card_launch` is called once per program when a timeline is written, never while a program runs. The cluster is lowered
for the sizes of the launch and cut into the card's units of work; the kernels that ran on this host do not matter, so
that an interpreted program has a prediction too. A cluster that cannot be lowered (TensorFlow ran it on the CPU) has
none, and the reason is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from habana_tf.card.model.bundles import parts
from habana_tf.card.model.cluster_time import ClusterTime, UnitTime
from habana_tf.card.model.engine_schedule import EngineSchedule, engine_schedule
from habana_tf.card.model.kernels import nbytes, through_views
from habana_tf.card.model.lowered import Lowered, launch_time
from habana_tf.card.model.occupancy import in_use
from habana_tf.card.model.parameters import LATEST_FITTED
from habana_tf.card.model.vector_time import operations
from habana_tf.card.timeline.intervals import Bundle, CardLaunch, Interval, LaunchResult
from habana_tf.cluster.lowering_context import LoweringError
from habana_tf.hardware.chips import Chip
from habana_tf.ir.conditions import NeedsNumber
from habana_tf.resolver.programs import Made

_PRODUCTS = ("Conv", "MatMul", "Einsum")
_MOST_OPS = 12
"""Of a kernel's ops that are named."""


def card_launch(made: Made, chip: Chip) -> CardLaunch:
    """What `chip` does in one launch of a program."""
    try:
        lowered, time = launch_time(chip, made.provenance().cluster, made.shapes, made.values)
    except (LoweringError, NeedsNumber) as error:
        return CardLaunch(0.0, why=f"its cluster cannot be lowered: {error}")
    on = engine_schedule(time)
    part = parts([u.unit for u in time.units], [u.bundle for u in time.units], on.starts, on.seconds)
    numbers = {first: k for k, first in enumerate(dict.fromkeys(part))}
    intervals = tuple(
        _interval(lowered, u, numbers[first], on.starts[u.unit.index], on.seconds[u.unit.index])
        for u, first in zip(time.units, part, strict=True)
    )
    return CardLaunch(
        time.seconds,
        on.overlap,
        on.drawn,
        tuple(sorted(intervals, key=lambda x: (x.start, x.engine))),
        tuple(_bundle(lowered, time, on, [k for k, of in enumerate(part) if of == first]) for first in numbers),
        tuple(in_use(chip, lowered, time, on)),
        _results(lowered, time, on),
    )


def _interval(lowered: Lowered, u: UnitTime, bundle: int, start: float, seconds: float) -> Interval:
    op, name = lowered.op(u.unit.origin)
    inside = sorted({n.origin for n in u.unit.inside if n.origin >= 0})[:_MOST_OPS]
    ops = tuple(" ".join(lowered.op(k)) for k in inside)
    flops = u.flops or operations(u.unit)
    return Interval(u.engine, start, seconds, name, op, ops, bundle, u.bound, flops, u.hbm_bytes)


def _bundle(lowered: Lowered, time: ClusterTime, on: EngineSchedule, members: Sequence[int]) -> Bundle:
    """members: its units, by index."""
    start = min(on.starts[k] for k in members)
    end = max(on.starts[k] + on.seconds[k] for k in members)
    named = next((k for k in members if time.units[k].unit.product), members[0])
    return Bundle(start, end - start, lowered.op(time.units[named].unit.origin)[1])


def _results(lowered: Lowered, time: ClusterTime, on: EngineSchedule) -> tuple[LaunchResult, ...]:
    """What leaves the launch for others: gradients among it, if others sum them."""
    maker = {n: u.unit.index for u in time.units for n in u.unit.results}
    out = []
    for ref, arg in zip(lowered.cluster.outputs, lowered.cluster.results, strict=True):
        if arg.variable:
            continue
        node = lowered.made[ref]
        makers = [maker[seen.tensor] for seen in through_views(node) if seen.tensor in maker]
        at = max((on.starts[k] + on.seconds[k] for k in makers), default=0.0)
        out.append(LaunchResult(at, nbytes(node)))
    return tuple(out)


def basis(chip: Chip) -> str:
    """What the predictions rest on, as a sentence for people."""
    p = LATEST_FITTED
    return (
        f"A launch takes the longest of what {chip.name}'s matrix engines, vector processors and memory (at "
        f"{chip.hbm_bandwidth / 1e12:.3g} TB/s) need for all of it, {1 - p.hidden:.0%} of the second longest, and "
        f"{p.launch * 1e6:.2g} µs for each piece of work (docs/fidelity.md)."
    )


def label(row: dict[str, Any], ops: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Type and name of the op that a kernel of this host is called after: the product it computes, else the last of its
    ops, to which the others lead, else what it does. ops: type and name of the cluster's ops."""
    mine = [ops[k] for k in row["ops"]]
    products = [op for op in mine if any(word in op[0] for word in _PRODUCTS)]
    if row["engine"] == "MME" and products:
        return products[-1]  # it may read a view that an earlier product made first
    return mine[-1] if mine else (str(row["does"]), str(row["does"]))
