"""Removes copies to the CPU and back: HPU ops read past an Identity on the CPU whose input is on HPU.

Why: a distribution strategy reads its metrics through an Identity on the worker's CPU and goes on computing on the
device. Taken literally, this splits the step for a copy of a few scalars.

Invariants: only Identity nodes without control inputs, which only move a value. Other uses of them stay.

    HPU a ─ CPU Identity ─┬─ HPU b            HPU a ─┬─ HPU b
                          └─ CPU c      ->           └─ CPU Identity ─ CPU c
"""

from __future__ import annotations

from habana_tf.tensorflow.graph.ops import FORWARDING, device_type
from habana_tf.tensorflow.graph.placement import Placement
from habana_tf.tensorflow.graph.view import View


def bypass(view: View, placement: Placement) -> None:
    """Points candidates past copies on the CPU, and removes copies without uses."""
    copies = {
        n
        for n in view.nodes
        if n.op in FORWARDING
        and not n.controls
        and device_type(n.device) == "CPU"
        and device_type(n.inputs[0][0].device) == "HPU"
    }
    if not copies:
        return
    consumers = view.consumers()
    for node in copies:
        left = node.name in view.preserved
        for consumer in consumers[node]:
            if placement.takes(consumer):
                consumer.inputs = [node.inputs[0] if n is node else (n, k) for n, k in consumer.inputs]
            left = left or any(n is node for n in consumer.sources())
        if not left:
            view.remove(node)
            placement.reasons.pop(node, None)
