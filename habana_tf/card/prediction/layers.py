"""Where a predicted step's time goes, layer by layer: what bounds each layer, and what would make it faster.

A layer is a common prefix of op names (`reports.layer_names`): "sgd/Mul_2" belongs to "sgd". A unit's time counts for
the layer of its first result. The overlap of both engines is taken off all units in proportion.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from habana_tf.card.model.cluster_time import UnitTime
from habana_tf.card.model.lowered import Lowered
from habana_tf.card.model.step_time import StepTime
from habana_tf.reports.layer_names import layer

POORLY = 0.5
"""Below this share of its multiply-adds the MME counts as poorly filled."""
BF16_BYTES = 2


@dataclass(frozen=True)
class Layer:
    """seconds: of the step. share: of its launches' time. bound: MME, TPC, memory or launch, by time. help: what would
    make it faster, most first."""

    name: str
    seconds: float
    share: float
    bound: str
    units: int
    flops: int
    hbm_bytes: int
    help: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def layers(step: StepTime, launches: Sequence[Lowered]) -> list[Layer]:
    """The layers of a step, the costliest first."""
    found: dict[str, list[UnitTime]] = {}
    for lowered, cluster in zip(launches, step.clusters, strict=True):
        for u in cluster.units:
            name = lowered.op(u.unit.origin)[1]
            found.setdefault(layer(name, lowered.cluster.is_op_type), []).append(u)
    whole = sum(u.seconds for u in step.units) or 1.0
    kept = step.launches / whole
    out = [_made(name, units, kept, step.launches) for name, units in found.items()]
    return sorted(out, key=lambda each: (-each.seconds, each.name))


def _made(name: str, units: list[UnitTime], kept: float, launches: float) -> Layer:
    bounds: defaultdict[str, float] = defaultdict(float)
    for u in units:
        bounds[u.bound] += u.seconds
    seconds = sum(u.seconds for u in units) * kept
    return Layer(
        name, seconds, seconds / launches if launches else 0.0, max(bounds, key=bounds.__getitem__), len(units),
        sum(u.flops for u in units), sum(u.hbm_bytes for u in units), _help(units),
    )  # fmt: skip


def _help(units: list[UnitTime]) -> tuple[str, ...]:
    """What costs time that it need not, by the time it costs."""
    lost: defaultdict[str, float] = defaultdict(float)
    for u in units:
        m = u.matrix
        if m is None:
            continue
        if not m.aligned:
            lost["sizes of the innermost axes that fill cache lines (products are fetched twice)"] += u.busy / 2
        if u.unit.results[0].src[0].dtype.bytes > BF16_BYTES:
            lost["bf16 (its products are fp32, at a quarter of the speed)"] += u.busy * 3 / 4
        elif m.used < POORLY and m.aligned:
            lost["more rows, columns or a deeper sum per product (the arrays are not full)"] += u.busy * (1 - m.used)
    waiting = sum(u.seconds - max(u.busy, u.memory) for u in units)
    whole = sum(u.seconds for u in units)
    if waiting > whole / 2:
        lost["a larger batch, or fewer and larger ops (launches take longer than the work)"] += waiting
    return tuple(text for text, seconds in sorted(lost.items(), key=lambda item: -item[1]) if seconds > whole / 10)
