"""Drops assignments that the same step overwrites before any read of the variable.

    v ─ AssignVariableOp(v, a) ··> AssignVariableOp(v, b)      ->      v ─ AssignVariableOp(v, b)

Why: for an embedding, Keras' Adam updates a whole moment and then some of its rows. With both assignments, the launch
had the first value among its results, as large as the table, and the moment could not be updated in place.

Invariants: all reads of the variable come before the dropped assignment, and only other assignments of it come behind.
Loops and branches are left alone, and so are graphs that run Python or have a handle of unknown origin. Nodes that
waited for the assignment wait for its value and for its control inputs.
"""

from __future__ import annotations

from habana_tf.tensorflow.graph.frames import ROOT, Flow
from habana_tf.tensorflow.graph.ops import RESOURCE, input_types
from habana_tf.tensorflow.graph.updates_in_place import vanish, waits_for
from habana_tf.tensorflow.graph.variable_handles import PASSED_ON, VariableKey, handle_key
from habana_tf.tensorflow.graph.variables import ASKS, PYTHON
from habana_tf.tensorflow.graph.view import Node, View, reached


def drop(view: View, flow: Flow) -> int:
    """Drops them; returns how many."""
    assigns: dict[VariableKey | None, list[Node]] = {}
    for node in view.alive():
        if node.op in PYTHON:
            return 0
        if node.op == "AssignVariableOp":
            assigns.setdefault(handle_key(node.inputs[0]), []).append(node)
    several = {key: nodes for key, nodes in assigns.items() if len(nodes) > 1}
    if not several:
        return 0
    takers = _takers(view)
    if takers is None:
        return 0
    dropped: dict[Node, list[Node]] = {}
    for key, nodes in several.items():
        others = [n for n in takers.get(key, ()) if n.op != "AssignVariableOp"]
        if all(n.op == "ReadVariableOp" for n in others) and all(
            flow.classes.get(n) == ROOT for n in (*nodes, *others)
        ):
            for node in nodes:
                if node.name not in view.fetched and _is_overwritten(node, nodes, others):
                    dropped[node] = [*node.controls, node.inputs[1][0]]
    if dropped:
        vanish(view, dropped)
    return len(dropped)


def _takers(view: View) -> dict[VariableKey | None, list[Node]] | None:
    """For every variable the nodes that read or write it; None if a node takes a handle of unknown origin."""
    out: dict[VariableKey | None, list[Node]] = {}
    for node in view.alive():
        if node.op in PASSED_ON or node.op in ASKS or node.virtual:  # which takes values, not handles
            continue
        types = input_types(node)
        if len(types) < len(node.inputs):  # a function by its name
            return None
        for ref, type_ in zip(node.inputs, types, strict=True):
            if type_ == RESOURCE:
                key = handle_key(ref)
                if key is None:
                    return None
                out.setdefault(key, []).append(node)
    return out


def _is_overwritten(node: Node, assigns: list[Node], reads: list[Node]) -> bool:
    """Whether another assignment waits for this one, and all reads come before it."""
    if not any(node in waits_for(other) for other in assigns if other is not node):
        return False
    return reached([node], Node.sources).keys() >= set(reads)
