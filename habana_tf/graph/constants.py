"""Constants wait for nobody.

What: the control inputs of a Const move to those who use it.

Why: TensorFlow's constant folding leaves a control edge from what it folded ("the shape of x" becomes a Const that
waits for x). A cluster takes a copy of each constant it uses; an edge through one would still keep its two ends
apart.

Invariants: who waited for something through a constant still waits for it. In a loop or a branch the control inputs
that hold the constant there stay.

    x ··> Const ─ reshape(y)       ->       Const ─ reshape(y) <·· x
"""

from __future__ import annotations

from .flow import ROOT, Flow
from .placement import Placement
from .view import View


def free(view: View, flow: Flow, placement: Placement) -> None:
    """Moves the control inputs of all constants that can do without."""
    held = [n for n in flow.order if n.op == "Const" and n.controls and n.name not in view.preserved]
    if not held:
        return
    consumers = view.consumers()
    for node in held:
        cls = flow.classes[node]
        kept = [] if cls == ROOT else [c for c in node.controls if not placement.takes(c)]
        if cls != ROOT and not flow.holds(cls, [], kept):
            continue
        moved = [c for c in node.controls if c not in kept]
        node.controls = kept
        for consumer in consumers[node]:
            for source in moved:
                consumer.add_control(source)
