"""Lets nodes take a variable's handle from where it enters the graph, and not from an Identity that passes it on.

What: an Identity of a handle is taken out. Who read it reads its source, and waits for what it waited for.

Why: TensorFlow puts one before every argument of a function that it inlines, and has it wait for all that the call
waited for. HPU has nothing to compute there, so it is in no cluster: a variable that was updated before the call (by a
decay of weights, say) would have the step cut in two at that place.

    update ··> Identity(v) ─ ReadVariableOp ─ mul      ->      v ─ ReadVariableOp ─ mul
                                                               update ··> ReadVariableOp

Invariants: only copies of a handle that comes from outside the graph, so that no loop and no branch chooses it. What
is fetched or keeps its name stays.
"""

from __future__ import annotations

from habana_tf.graph.ops import RESOURCE, output_types
from habana_tf.graph.variable_handles import ENTRIES
from habana_tf.graph.view import Node, View, behind


def bypass(view: View) -> int:
    """Takes the copies out; how many."""
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
