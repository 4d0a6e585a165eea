"""Moves the control inputs of constants to the nodes that use the constants.

Why: TensorFlow's constant folding leaves a control edge from the node that it folded ("the shape of x" becomes a Const
with x as control input). A cluster copies each constant it uses; an edge through one would still keep its two ends in
different clusters.

Invariants: a node that waited for another through a constant still does. In a loop or a branch a constant keeps the
control inputs that hold it there, or in a loop gets the one that holds other constants.

    x ··> Const ─ reshape(y)       ->       Const ─ reshape(y) <·· x
"""

from __future__ import annotations

from dataclasses import dataclass

from habana_tf.tensorflow.graph.frames import ROOT, Class, Flow
from habana_tf.tensorflow.graph.placement import Placement
from habana_tf.tensorflow.graph.view import Node, View


def free(view: View, flow: Flow, placement: Placement) -> None:
    """Moves the control inputs of all constants that do not need them."""
    held = [n for n in flow.order if n.op == "Const" and n.controls and n.name not in view.preserved]
    if not held:
        return
    consumers = view.consumers()
    pivots = _pivots(held, flow, placement)
    for node in held:
        cls = flow.classes[node]
        kept = [] if cls == ROOT else [c for c in node.controls if not placement.takes(c)]
        if cls != ROOT and not flow.holds(cls, [], kept):
            if not pivots.before(node):
                continue
            kept.append(pivots.of[cls])
        moved = [c for c in node.controls if c not in kept]
        node.controls = kept
        for consumer in consumers[node]:
            for source in moved:
                consumer.add_control(source)


@dataclass
class _Pivots:
    """Per class in a loop, the first node that holds constants there; `at` is every node's place in the order."""

    flow: Flow
    of: dict[Class, Node]
    at: dict[Node, int]

    def before(self, node: Node) -> bool:
        """Whether a constant may wait for the pivot of its class: a path back would be a cycle."""
        pivot = self.of.get(self.flow.classes[node])
        return pivot is not None and self.at[pivot] < self.at[node]


def _pivots(held: list[Node], flow: Flow, placement: Placement) -> _Pivots:
    at = {n: k for k, n in enumerate(flow.order)}
    of: dict[Class, Node] = {}
    for node in held:
        cls = flow.classes[node]
        for source in node.controls if cls[0] else ():
            entry = source.op == "Identity" and source.inputs[0][0].op == "Switch"
            first = cls not in of or at[source] < at[of[cls]]
            if first and (entry or not placement.takes(source)) and flow.holds(cls, [], [source]):
                of[cls] = source
    return _Pivots(flow, of, at)
