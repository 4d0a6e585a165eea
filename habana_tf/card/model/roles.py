"""The roles of a training step's variables and tensors: weights, gradients, state of the optimizer.

What: an update op says which of its inputs are the variable, its gradient, and state (`ClusterOp.roles`). Where an
optimizer is made of plain ops (Keras' own since 2.11) a variable that a product reads, or any other op that is no
update, is a weight as soon as the cluster assigns it and another assigned variable has its shape; the others are state.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from habana_tf.card.model.kernels import Unit, nbytes, through_views
from habana_tf.card.model.lowered import Lowered
from habana_tf.ir.primitives import Node


@dataclass
class Roles:
    """weights, state: inputs of the program that are such variables. gradients: tensors, in the order of the graph."""

    weights: set[Node] = field(default_factory=set)
    state: set[Node] = field(default_factory=set)
    gradients: list[Node] = field(default_factory=list)


def roles(lowered: Lowered, units: list[Unit]) -> Roles:
    """The roles in a cluster. Weights that are not updated count as weights too."""
    out = Roles()
    for n in lowered.cluster.nodes:
        for ref, role in n.roles():
            node = lowered.made[ref]
            if role == "gradient":
                out.gradients.extend(seen.tensor for seen in through_views(node))
            else:
                (out.weights if role == "weight" else out.state).add(node)
    _plain(lowered, units, out)
    return out


def _plain(lowered: Lowered, units: list[Unit], out: Roles) -> None:
    """The roles of variables that no update op names, by the units that read them."""
    rest = lowered.variables - out.weights - out.state
    readers: Counter[Node] = Counter()
    matrix: set[Node] = set()
    for unit in units:
        for tensor in unit.loads:
            readers[tensor] += 1
            if unit.product:
                matrix.add(tensor)
    makers = {n: unit for unit in units for n in unit.results}
    for unit in units:  # a weight cast to bf16 for a product
        if unit.product:
            for tensor in unit.loads:
                if tensor in makers:
                    matrix.update(t for t in makers[tensor].loads if t in rest and nbytes(t) >= nbytes(tensor))
    for n in rest:
        (out.weights if n in matrix or readers[n] > 1 else out.state).add(n)
