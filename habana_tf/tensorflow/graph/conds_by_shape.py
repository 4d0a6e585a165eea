"""Removes the branches never taken of conds whose predicate follows from shapes.

What: a predicate that follows from shapes and constants ("does the window fit?", "is padding needed?") is evaluated at
graph time, and the nodes on the other branch are removed. Switch and Merge become Identity.

Why: TensorFlow folds such conds only as far as it knows the shapes before them, and behind the first Merge it knows
none. A vision transformer with a few per layer fell into more than a hundred clusters, each with a recipe.

How: the tensors that predicates follow from are built again in a scratch graph, in order (`inference.py`). There a
Merge with a known predicate has the shape and value of the side that is taken, and known values are propagated. Tensors
of known shape are not built.

Invariants: only conds outside loops. A cond with a preserved node on the branch that would go stays.

    x ─ Switch(shape(x)[1] > 4):1 ─ pad ──┐
                               :0 ────────┴ Merge ─ y        ->        x ─ y          (where x is [None, 3])
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from habana_tf.ir.primitives import postorder
from habana_tf.tensorflow.clusters.cluster import SHAPE_ONLY
from habana_tf.tensorflow.graph.frames import Flow, analyse, predicate
from habana_tf.tensorflow.graph.inference import Scratch
from habana_tf.tensorflow.graph.ops import (
    CONTROL_FLOW,
    FORWARDING,
    RESOURCE,
    STRUCTURAL,
    facts,
    input_types,
    output_types,
)
from habana_tf.tensorflow.graph.shapes import Shapes
from habana_tf.tensorflow.graph.view import Node, Ref, View, controls_past, reached


def fold(view: View, shapes: Shapes) -> int:
    """Folds what it can; returns how many predicates it knew."""
    switches = [n for n in view.nodes if n.op == "Switch"]
    if not switches or not (wanted := _decided_by_shapes({predicate(n) for n in switches})):
        return 0
    flow = analyse(view)
    wanted = {ref for ref in wanted if flow.classes[ref[0]][0] == 0}
    evaluation = _Evaluation(flow, shapes, wanted)
    evaluation.run()
    folding = _Folding(view, flow, evaluation.known, evaluation.values)
    return folding.run() if folding.known else 0


def _decided_by_shapes(predicates: set[Ref]) -> set[Ref]:
    """The tensors among these that follow from shapes and constants alone."""
    decided: dict[Node, bool] = {}
    for node in postorder([node for node, _ in predicates], _sources):
        known = node.op == "Const" or node.op in SHAPE_ONLY
        decided[node] = known or (not _opaque(node) and all(decided[n] for n, _ in node.inputs))
    return {ref for ref in predicates if decided[ref[0]]}


def _sources(node: Node) -> list[Node]:
    """The nodes whose values decide a node's value."""
    return [] if node.op in SHAPE_ONLY or _opaque(node) else [n for n, _ in node.inputs]


def _opaque(node: Node) -> bool:
    """Whether nothing is known of a node's value before it runs."""
    if not node.inputs or node.op in ("Enter", "Exit", "NextIteration", "LoopCond", "_SwitchN"):
        return True
    known = facts(node.op)
    return known is None or known.stateful or RESOURCE in input_types(node)


class _Evaluation:
    """Computes predicates in the order of the graph, each with what is known by then."""

    def __init__(self, flow: Flow, shapes: Shapes, wanted: set[Ref]) -> None:
        self.flow, self.shapes, self.wanted = flow, shapes, wanted
        self.scratch = Scratch()
        self.known: dict[Ref, int] = {}
        """The branch taken (0 or 1) for each predicate that is known."""
        self.values: dict[Node, Any] = {}
        """What nodes of one output give, as NumPy arrays."""

    def run(self) -> None:
        needed = self._needed()
        asked: dict[Node, list[int]] = {}
        for node, output in self.wanted:
            asked.setdefault(node, []).append(output)
        for node in self.flow.order:
            if node in needed and not self.dead(node):
                self._build(node)
                value = self.scratch.value((node, 0))
                if value is not None and node.op != "Const" and len(output_types(node)) == 1:
                    self.values[node] = value
                for output in asked.get(node, ()):
                    value = self.scratch.value((node, output))
                    if value is not None and value.size == 1:
                        self.known[node, output] = int(bool(value.reshape(-1)[0]))

    def dead(self, node: Node) -> bool:
        """Whether a node is on a branch that is not taken."""
        return any(side >= 0 and self.known.get((n, k)) == 1 - side for n, k, side in self.flow.condition(node))

    def _needed(self) -> Collection[Node]:
        """What predicates follow from, up to tensors of which only the shape counts and which the graph's own inference
        knows: all but those behind one of these conds."""
        behind: set[Node] = set()
        for node in self.flow.order:
            merged = self.flow.resolved.get(node)
            if (merged is not None and merged[:2] in self.wanted) or any(n in behind for n, _ in node.inputs):
                behind.add(node)

        def step(node: Node) -> Iterator[Node]:
            if node in self.flow.resolved:
                yield self.flow.resolved[node][0]
            for source, output in node.inputs:
                if node.op in SHAPE_ONLY and (source not in behind or self._whole((source, output))):
                    continue
                if source.op == "Const" or not (_opaque(source) or self.flow.classes[source][0]):
                    yield source

        return reached([node for node, _ in self.wanted], step).keys()

    def _whole(self, ref: Ref) -> bool:
        shape = self.shapes.get(ref)
        return shape is not None and all(n >= 0 for n in shape)

    def _build(self, node: Node) -> None:
        for source, output in node.inputs:
            if not self.scratch.has((source, output)):  # beyond what is needed: its type and shape are all there is
                types = output_types(source)
                if output < len(types):
                    self.scratch.placeholder((source, output), types[output], self.shapes.partial((source, output)))
        if node.op == "Switch":
            self.scratch.alias((node, 0), node.inputs[0])
            self.scratch.alias((node, 1), node.inputs[0])
        elif node.op == "Merge":
            live = _live(node, self.flow, self.known)
            if live is not None:
                self.scratch.alias((node, 0), node.inputs[live])
            else:
                self.scratch.placeholder((node, 0), output_types(node)[0], self.shapes.partial((node, 0)))
        elif node.op in FORWARDING:
            self.scratch.alias((node, 0), node.inputs[0])
        else:
            self.scratch.op(node, [self.shapes.partial((node, k)) for k in range(len(output_types(node)))])


def _live(merge: Node, flow: Flow, known: dict[Ref, int]) -> int | None:
    """Which input a Merge takes, if that is known."""
    literal = flow.resolved.get(merge)
    branch = None if literal is None else known.get(literal[:2])
    return None if literal is None or branch is None else int(branch != literal[2])


@dataclass
class _Folding:
    """Takes the branches out. known: predicate -> the branch taken; values: of nodes that need not be computed."""

    view: View
    flow: Flow
    known: dict[Ref, int]
    values: dict[Node, Any]

    def __post_init__(self) -> None:
        held = set()
        for node in self.flow.order:
            if node.name in self.view.preserved:
                condition = self.flow.condition(node)
                held |= {(n, k) for n, k, side in condition if side >= 0 and self.known.get((n, k)) == 1 - side}
        self.known = {ref: branch for ref, branch in self.known.items() if ref not in held}
        self.dead = self._dead()
        if any(n.name in self.view.preserved for n in self.dead):
            self.known, self.dead = {}, set()

    def _dead(self) -> set[Node]:
        """The nodes that never run, as TensorFlow's executor would find out."""
        dead: set[Node] = set()
        for node in self.flow.order:
            if node.op == "Merge":
                given = [ref for ref in node.inputs if ref[0].op != "NextIteration"]
                never = all(self._never(ref, dead) for ref in given)
            else:
                never = any(self._never(ref, dead) for ref in node.inputs)
            if never or any(n in dead for n in node.controls):
                dead.add(node)
        return dead

    def _never(self, ref: Ref, dead: set[Node]) -> bool:
        node, output = ref
        return node in dead or (node.op == "Switch" and self.known.get(predicate(node)) == 1 - output)

    def run(self) -> int:
        """Rewrites the graph; returns the number of known predicates."""
        dead = self.dead
        switches = {n for n in self.flow.order if n.op == "Switch" and n not in dead and predicate(n) in self.known}
        pivots = {
            n for n in self.flow.order
            if n.op == "Identity" and n.inputs[0][0] in switches and _asks(n.inputs[0][0])
        }  # fmt: skip
        merges = {n: self._only(n) for n in self.flow.order if n.op == "Merge" and n not in dead}
        for node in self.flow.order:
            if node in dead:
                self.view.remove(node)
                continue
            if (live := merges.get(node)) is not None:
                self._pass_on(node, node.inputs[live], dead)
            if node in self.values and self._always(node):
                node.become_constant(self.values[node])
                continue
            if node in switches:
                node.become("Identity", T=output_types(node)[0])
                node.inputs = node.inputs[:1]
            node.inputs = [(n, 0) if n in switches else (n, k) for n, k in node.inputs]
            node.controls = self._waits(node, pivots)
        self.view.sweep(self.view.alive(), _idle)
        return len(self.known)

    def _only(self, merge: Node) -> int | None:
        """The one input of a Merge that may come; None if several may, or it is a loop's."""
        may = [k for k, ref in enumerate(merge.inputs) if not self._never(ref, self.dead)]
        return may[0] if len(may) == 1 and not any(n.op == "NextIteration" for n, _ in merge.inputs) else None

    def _always(self, node: Node) -> bool:
        """Whether a node always runs, and is not preserved."""
        condition = self.flow.condition(node)
        decided = all(side >= 0 and (n, k) in self.known for n, k, side in condition)
        return decided and self.flow.classes[node][0] == 0 and node.name not in self.view.preserved

    def _pass_on(self, merge: Node, live: Ref, dead: set[Node]) -> None:
        """Replaces a Merge of which one side is left; its second output becomes a constant."""
        side = merge.inputs.index(live)
        askers = [n for n in self.flow.order if n not in dead and (merge, 1) in n.inputs]
        if askers:
            which = self.view.constant(f"{merge.name}/side", np.int32(side), merge.device)
            which.controls = [merge]
            for asker in askers:
                asker.inputs = [(which, 0) if ref == (merge, 1) else ref for ref in asker.inputs]
        merge.become("Identity", T=output_types(merge)[0])
        merge.inputs = [live]

    def _waits(self, node: Node, pivots: set[Node]) -> list[Node]:
        """The control inputs of a node without those that only told the branch."""
        waited = controls_past(node, lambda n: (n.inputs[0][0],) if n in pivots else None)
        return [n for n in waited if n.alive and n is not node]


def _idle(node: Node) -> bool:
    """Whether nothing is missing without a node that nobody uses: one that only a predicate used."""
    known = facts(node.op)
    if known is None or known.stateful or node.op == "_Retval":
        return False
    return node.op in STRUCTURAL | CONTROL_FLOW | {"Const"} or bool(known.inputs)


def _asks(switch: Node) -> bool:
    """Whether a Switch sends its own predicate, to tell by control which branch is taken."""
    return switch.op == "Switch" and switch.inputs[0] == switch.inputs[1]
