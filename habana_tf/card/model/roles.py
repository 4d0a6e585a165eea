"""The roles of a training step's variables and tensors: weights, gradients, state of the optimizer.

An update op of TensorFlow names its arguments: the variable, its gradient, and state. An optimizer that is made of
plain ops (Keras' own since 2.11) names none. Then a variable that a product reads, or that several units read, is a
weight, and every other one is state.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from habana_tf.card.model.kernels import Unit, nbytes, through_views
from habana_tf.card.model.lowered import Lowered
from habana_tf.ir.primitives import Node
from habana_tf.lowering.table import lookup

UPDATES = "ResourceApply"
"""What the names of TensorFlow's update ops begin with."""


@dataclass
class Roles:
    """weights, state: inputs of the program that are such variables. gradients: tensors, in the order of the graph."""

    weights: set[Node] = field(default_factory=set)
    state: set[Node] = field(default_factory=set)
    gradients: list[Node] = field(default_factory=list)


def roles(lowered: Lowered, units: list[Unit]) -> Roles:
    """The roles in a cluster; its weights that nobody updates count as weights too."""
    out = Roles()
    for n in lowered.cluster.nodes:
        row = lookup(n.op)
        if row is None or not n.op.startswith(UPDATES):
            continue
        for name, at in n.arg_slices.items():
            for ref in n.inputs[at]:
                node = lowered.made[ref]
                if name == "grad":
                    out.gradients.extend(seen.tensor for seen in through_views(node))
                elif name == "var":
                    out.weights.add(node)
                elif name in row.updates:
                    out.state.add(node)
    _plain(lowered, units, out)
    return out


def _plain(lowered: Lowered, units: list[Unit], out: Roles) -> None:
    """Variables that no update op names, by who reads them."""
    variables = {lowered.made[-1, k] for k, arg in enumerate(lowered.cluster.inputs) if arg.variable}
    rest = variables - out.weights - out.state
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
