"""The card's time of one launch of a program: computed when first asked for, then remembered per chip.

The program's cluster comes from `resolver.programs`; it is lowered again and timed by `card.model.lowered`. Where
that fails, the answer says why, and the launch counts as not predicted.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from habana_tf.hardware.chips import Chip

if TYPE_CHECKING:
    from habana_tf.cluster.cluster import Cluster

MOST = 65536
"""Predictions that are remembered, those asked for last."""
MOST_SCOPES = 2
"""Name scopes that stand for what a cluster computes."""
FORGOTTEN = "it was compiled too long ago to be known any more"


@dataclass(frozen=True)
class LaunchPrediction:
    """Of one launch. seconds: None where nothing can be predicted, and `why` says why not. matrix, vector: seconds of
    products on the MME and of kernels on the TPC, of which some are done side by side. units: products and kernels.
    bound: what most of the time goes to: MME, TPC, memory or launch. gradients: when each is there, and its bytes."""

    seconds: float | None
    matrix: float = 0.0
    vector: float = 0.0
    units: int = 0
    bound: str = ""
    why: str = ""
    gradients: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True)
class ProgramPrediction:
    """A program and its prediction. what: it computes, by its ops; inputs: shapes of those that are no variables."""

    time: LaunchPrediction
    what: str = ""
    inputs: tuple[tuple[int, ...], ...] = ()


def of_cluster(
    chip: Chip, cluster: Cluster, shapes: Sequence[Sequence[int]], values: Sequence[Any]
) -> LaunchPrediction:
    """The prediction for one launch of a cluster; shapes and values as for `lowered.launch_time`."""
    from habana_tf.card.model.lowered import launch_time
    from habana_tf.card.model.roles import roles
    from habana_tf.card.model.step_time import gradient_times
    from habana_tf.cluster.lowering_context import LoweringError
    from habana_tf.ir.conditions import NeedsNumber

    try:
        lowered, time = launch_time(chip, cluster, shapes, values)
    except (LoweringError, NeedsNumber) as error:
        return LaunchPrediction(None, why=str(error))
    bounds: dict[str, float] = {}
    for u in time.units:
        bounds[u.bound] = bounds.get(u.bound, 0.0) + u.seconds
    bound = max(bounds, key=lambda name: (bounds[name], name), default="")
    gradients = gradient_times(time, roles(lowered, [u.unit for u in time.units]), 0.0)
    return LaunchPrediction(time.seconds, time.matrix, time.vector, len(time.units), bound, gradients=tuple(gradients))


_lock = threading.Lock()
_known: OrderedDict[tuple[int, str], ProgramPrediction] = OrderedDict()


def launch(number: int, chip: Chip) -> ProgramPrediction:
    """A program of this process, by its number, with the prediction for one launch of it."""
    key = number, chip.name
    with _lock:
        found = _known.get(key)
        if found is not None:
            _known.move_to_end(key)
            return found
    found = _computed(number, chip)
    with _lock:
        _known[key] = found
        if len(_known) > MOST:
            _known.popitem(last=False)
    return found


def _computed(number: int, chip: Chip) -> ProgramPrediction:
    from habana_tf.resolver import programs

    made = programs.find(number)
    if made is None:
        return ProgramPrediction(LaunchPrediction(None, why=FORGOTTEN))
    met = made.provenance()
    nodes = met.cluster.nodes
    what = nodes[0].op if len(nodes) == 1 else ", ".join([f"{len(nodes)} ops", *list(met.scopes())[:MOST_SCOPES]])
    given = zip(met.cluster.inputs, made.shapes, strict=True)
    inputs = tuple(tuple(shape) for arg, shape in given if not arg.variable)
    return ProgramPrediction(of_cluster(chip, met.cluster, made.shapes, made.values), what, inputs)
