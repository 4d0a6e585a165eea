"""What a cluster needs of HBM on a card, by category, at the moment when it needs most.

What: variables are there all the time, once: a card updates them in place. Tensors are there from the unit that makes
them to the last that reads them, in the order of the longest path; what stays in SRAM inside a bundle needs no HBM.

    weights, optimizer   variables by their role
    gradients            tensors that an update takes
    activations          tensors that wait for a later unit, as those that the backward pass reads again
    workspace            what the unit at work reads for the last time, and writes
    inputs               what is fed
"""

from __future__ import annotations

from ..ir.primitives import Node
from .cluster_time import ClusterTime
from .kernels import nbytes, through_views
from .lowered import Lowered
from .roles import Roles

CATEGORIES = ("weights", "optimizer", "gradients", "activations", "workspace", "inputs")


def hbm_by_category(lowered: Lowered, time: ClusterTime, roles: Roles) -> dict[str, int]:
    """Bytes per category at the peak."""
    out = dict.fromkeys(CATEGORIES, 0)
    for k, arg in enumerate(lowered.cluster.inputs):
        node = lowered.made[-1, k]
        category = "weights" if node in roles.weights else "optimizer" if node in roles.state else "inputs"
        out[category] += 0 if arg.host else nbytes(node)
    gradients = set(roles.gradients)
    for tensor, category in _alive_at_peak(lowered, time):
        out["gradients" if tensor in gradients else category] += nbytes(tensor)
    return out


def _alive_at_peak(lowered: Lowered, time: ClusterTime) -> list[tuple[Node, str]]:
    """The tensors in HBM at the peak, each with its category."""
    finished = time.finished
    order = sorted(range(len(time.units)), key=lambda k: (finished[k], k))
    place = {index: at for at, index in enumerate(order)}
    updated = {
        seen.tensor
        for ref, arg in zip(lowered.cluster.outputs, lowered.cluster.results, strict=True)
        if arg.variable
        for seen in through_views(lowered.made[ref])
    }
    last: dict[Node, int] = {}
    for u in time.units:
        for tensor in u.unit.loads:
            last[tensor] = max(last.get(tensor, 0), place[u.unit.index])
    leaving = {seen.tensor for n in lowered.program.outputs for seen in through_views(n)}
    born: dict[Node, int] = {}
    for u in time.units:
        for tensor in u.unit.stores:
            if tensor in updated:
                continue
            born[tensor] = place[u.unit.index]
            if tensor in leaving:
                last[tensor] = len(order)
    steps = [0] * (len(order) + 2)
    for tensor, at in born.items():
        steps[at] += nbytes(tensor)
        steps[last.get(tensor, at) + 1] -= nbytes(tensor)
    now = best = peak = 0
    for at, change in enumerate(steps[: len(order)]):
        now += change
        if now > best:
            best, peak = now, at
    alive = [t for t, at in born.items() if at <= peak <= last.get(t, at)]
    return [(t, "workspace" if born[t] == peak or last.get(t, peak) == peak else "activations") for t in alive]
