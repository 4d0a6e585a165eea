"""Removes Identity nodes of variable handles: their users take the handle from where it enters the graph.

Why: TensorFlow adds one for every argument of a function that it inlines, with the control inputs of the call. HPU has
nothing to compute there, so the Identity is in no cluster: a variable updated before the call (by a weight decay, say)
would split the step at that place.

    update ··> Identity(v) ─ ReadVariableOp ─ mul      ->      v ─ ReadVariableOp ─ mul
                                                               update ··> ReadVariableOp

Invariants: users get the control inputs of the copy. Only copies of a handle that comes from outside the graph, so that
no loop or branch chooses it. Nodes that are fetched or keep their names stay.
"""

from __future__ import annotations

from habana_tf.tensorflow.graph.ops import RESOURCE, output_types
from habana_tf.tensorflow.graph.variable_handles import ENTRIES
from habana_tf.tensorflow.graph.view import Node, View, behind


def bypass(view: View) -> int:
    """Removes the copies; returns how many."""
    named = view.preserved | view.fetched
    copies = [n for n in view.alive() if n.op == "Identity" and n.name not in named and _enters(n)]
    if not copies:
        return 0
    consumers = view.consumers()
    copies = [n for n in copies if all(c.op != "Merge" for c in consumers[n])]  # which waits for one input of two
    for copy in copies:
        source, _ = copy.inputs[0]
        for consumer in dict.fromkeys(consumers[copy]):
            consumer.inputs = [copy.inputs[0] if n is copy else (n, k) for n, k in consumer.inputs]
            consumer.controls = [n for n in consumer.controls if n is not copy]
            for node in copy.controls:
                consumer.add_control(node)
                consumers[node].append(consumer)
            consumers[source].append(consumer)
        view.remove(copy)
    return len(copies)


def _enters(node: Node) -> bool:
    """Whether it is the handle of a variable that comes from outside the graph."""
    return RESOURCE in output_types(node) and behind((node, 0), ("Identity",))[0].op in ENTRIES
