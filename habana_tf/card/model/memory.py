"""The HBM that a cluster needs on a card, by category, at its peak.

Variables are there all the time, once: a card updates them in place. Tensors are there from the unit that makes them to
the last one that reads them, in the order of the longest path; what stays in SRAM within a bundle needs no HBM.

    weights, optimizer   variables, by role
    gradients            tensors that an update takes
    activations          tensors that wait for a later unit, such as those that the backward pass reads again
    workspace            what the current unit writes, or reads for the last time
    inputs               what is fed
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from habana_tf.card.model.attention import causal
from habana_tf.card.model.bundles import unwritten
from habana_tf.card.model.cluster_time import ClusterTime
from habana_tf.card.model.kernels import CASTS, behind_views, nbytes
from habana_tf.card.model.lowered import Lowered
from habana_tf.card.model.roles import Roles
from habana_tf.hardware.chips import Chip
from habana_tf.ir.lifetimes import in_use
from habana_tf.ir.primitives import Node, Op
from habana_tf.reports.layer_names import layer

CATEGORIES = ("weights", "optimizer", "gradients", "activations", "workspace", "inputs")


def hbm_by_category(chip: Chip, lowered: Lowered, time: ClusterTime, roles: Roles) -> dict[str, int]:
    """Bytes per category at the peak."""
    out = dict.fromkeys(CATEGORIES, 0)
    for k, arg in enumerate(lowered.cluster.inputs):
        node = lowered.made[-1, k]
        category = "weights" if node in roles.weights else "optimizer" if node in roles.state else "inputs"
        out[category] += 0 if arg.host else nbytes(node)
    gradients = set(roles.gradients)
    order, alive = lifetimes(chip, lowered, time)
    at = _moment(len(order), alive)
    for tensor, (first, last) in alive.items():
        if first <= at <= last:
            category = "workspace" if at in (first, last) else "activations"
            out["gradients" if tensor in gradients else category] += held_bytes(tensor)
    return out


def held_bytes(n: Node) -> int:
    """Bytes of a tensor: of a widened one those of the narrow, which a kernel widens as it reads."""
    widened = n.op is Op.MAP and n.arg in CASTS
    return min(nbytes(n), nbytes(n.src[0])) if widened else nbytes(n)


def _in_sram(chip: Chip, lowered: Lowered, time: ClusterTime) -> set[Node]:
    """The tensors that need no HBM: read by their own bundle only, with no unit of another one in between."""
    home = [u.bundle for u in time.units]
    last = {tensor: u.unit.index for u in time.units for tensor in u.unit.loads}
    maker = {tensor: u.unit.index for u in time.units for tensor in u.unit.stores}
    found = unwritten(chip, lowered.program, [u.unit for u in time.units], home)
    scores = causal([u.unit for u in time.units])[1]
    return {t for t in found if t in scores or len({*home[maker[t] : last[t] + 1]}) == 1}


def new_values(lowered: Lowered) -> set[Node]:
    """The tensors that variables become, which a card writes over the old values."""
    results = zip(lowered.cluster.outputs, lowered.cluster.results, strict=True)
    return behind_views(lowered.made[ref] for ref, arg in results if arg.variable)


def lifetimes(chip: Chip, lowered: Lowered, time: ClusterTime) -> tuple[list[int], dict[Node, tuple[int, int]]]:
    """(the units by index, as they work one after the other; of each tensor in HBM the places of the first and the last
    of them that it is there for). Variables are not among them, nor their new values, nor what is
    written into inputs."""
    finished = time.finished
    in_sram = _in_sram(chip, lowered, time)
    order = sorted(range(len(time.units)), key=lambda k: (finished[k], k))
    place = {index: at for at, index in enumerate(order)}
    updated = new_values(lowered)
    last: dict[Node, int] = {}
    for u in time.units:
        for tensor in u.unit.loads:
            last[tensor] = max(last.get(tensor, 0), place[u.unit.index])
    leaving = behind_views(lowered.program.outputs)
    born: dict[Node, int] = {}
    for u in time.units:
        for tensor in u.unit.stores:
            if tensor in updated or tensor in in_sram or tensor in u.unit.in_place:
                continue
            born[tensor] = place[u.unit.index]
            if tensor in leaving:
                last[tensor] = len(order)
    return order, {t: (at, last.get(t, at)) for t, at in born.items()}


@dataclass(frozen=True)
class Peak:
    """The moment of a launch with most HBM. nbytes: of tensors then; op: the name of the op that works; layers: bytes
    of tensors there by the layer that made them, the most first."""

    nbytes: int
    op: str
    layers: dict[str, int]


def peak(chip: Chip, lowered: Lowered, time: ClusterTime) -> Peak:
    """The owner of a launch's peak. Variables and inputs, which are there all the time, are not in it."""
    order, alive = lifetimes(chip, lowered, time)
    at = _moment(len(order), alive)
    layers: Counter[str] = Counter()
    for tensor, (first, last) in alive.items():
        if first <= at <= last:
            layers[layer(lowered.op(tensor.origin)[1])] += held_bytes(tensor)
    op = lowered.op(time.units[order[at]].unit.origin)[1] if order else ""
    return Peak(layers.total(), op, dict(layers.most_common()))


def _moment(moments: int, alive: Mapping[Node, tuple[int, int]]) -> int:
    """The place in the order of units at which most bytes are alive."""
    held = in_use(moments, ((*span, held_bytes(tensor)) for tensor, span in alive.items()))
    return max(range(moments), key=held.__getitem__, default=0)
