"""Under which condition each node runs: in which loop, and on which branches.

What: every node gets a class. Nodes of one class run equally often: in the same loop and iteration, under the same
branches. Only such nodes may share a cluster, since a launch runs all of its ops or none.

Why: in a graph with lowered control flow a Switch sends its input to one side and *dead* to the other. A node with a
dead input does not run and is dead itself; a Merge takes the input that is alive. Enter and Exit open and close the
frame of a loop.

How: a node's condition is the union of its inputs' literals, (predicate, branch); a Switch adds one. A Merge of two
sides that differ only in the branch of one predicate drops it. Any other Merge has a condition of its own, named after
it; a loop's Merge stands for "this iteration". An Exit has the condition under which its loop was entered.

    p ─┬─Switch:1 ── a ──┐          a: {(p, 1)}    b: {(p, 0)}
       └─Switch:0 ── b ──┴ Merge    Merge: {}
"""

from __future__ import annotations

from dataclasses import dataclass, field

from habana_tf.tensorflow.graph.ops import attr
from habana_tf.tensorflow.graph.view import Node, Ref, View, behind

Literal = tuple[Node, int, int]
"""Predicate tensor (node, output) and branch; branch -1 for a condition that is one node's own."""
Condition = frozenset[Literal]
Class = tuple[int, int]
"""(frame, condition), both as numbers; (0, 0) is outside every loop and branch."""

ROOT: Class = (0, 0)


class Conditions:
    """Conditions by number; 0 is the one that always holds."""

    def __init__(self) -> None:
        self.all: list[Condition] = [frozenset()]
        self._numbers: dict[Condition, int] = {frozenset(): 0}
        self._joined: dict[tuple[int, int], int] = {}

    def number(self, *literals: Literal) -> int:
        return self.of(frozenset(literals))

    def of(self, condition: Condition) -> int:
        if condition not in self._numbers:
            self._numbers[condition] = len(self.all)
            self.all.append(condition)
        return self._numbers[condition]

    def join(self, a: int, b: int) -> int:
        """The condition under which both hold."""
        if a == b or not b:
            return a
        if not a:
            return b
        if (a, b) not in self._joined:
            self._joined[a, b] = self.of(self.all[a] | self.all[b])
        return self._joined[a, b]

    def joined(self, inputs: list[Ref], controls: list[Node], classes: dict[Node, Class]) -> Class:
        """The innermost frame and the common condition of the inputs of a node."""
        frame = condition = 0
        for source, output in inputs:
            inner, under = classes[source]
            frame = max(frame, inner)
            if source.op == "Switch":
                under = self.join(under, self.number((*predicate(source), output)))
            elif source.op == "_SwitchN":
                under = self.join(under, self.number((source, output, -1)))
            condition = self.join(condition, under)
        for source in controls:
            inner, under = classes[source]
            frame = max(frame, inner)
            condition = self.join(condition, under)
        return frame, condition


@dataclass
class Flow:
    """`order`: the topological order it was computed in. `classes`: per node. `resolved`: for a Merge of two branches,
    the predicate that it resolves, with the branch of its first input."""

    order: list[Node] = field(default_factory=list)
    classes: dict[Node, Class] = field(default_factory=dict)
    conditions: Conditions = field(default_factory=Conditions)
    resolved: dict[Node, Literal] = field(default_factory=dict)

    def condition(self, node: Node) -> Condition:
        return self.conditions.all[self.classes[node][1]]

    def holds(self, cls: Class, inputs: list[Ref], controls: list[Node]) -> bool:
        """Whether these inputs alone would put a node into a class."""
        return self.conditions.joined(inputs, controls, self.classes) == cls


def predicate(switch: Node) -> tuple[Node, int]:
    """The predicate of a Switch, traced so that equal ones are recognized."""
    return behind(switch.inputs[1], ("Identity", "Switch"))  # it may itself be sent through a Switch


def analyse(view: View) -> Flow:
    """The class of every node. Linear in the size of the graph."""
    order = view.topological()
    if not any(n.op in ("Switch", "Enter", "_SwitchN", "Merge") for n in order):
        return Flow(order, dict.fromkeys(order, ROOT))
    conditions = Conditions()
    frames: dict[tuple[int, str], int] = {}
    around: list[Class] = [ROOT]
    """Of each loop, the frame it is in and the condition under which it is entered."""
    iterations: dict[int, Node] = {}
    classes: dict[Node, Class] = {}
    resolved: dict[Node, Literal] = {}
    for node in order:
        if node.op == "Merge":
            frame, sides = _sides(node, classes, conditions.all)
            if any(n.op == "NextIteration" for n, _ in node.inputs):
                condition = conditions.number((iterations.setdefault(frame, node), 0, -1))
            elif (literal := _resolved(sides)) is not None:
                resolved[node] = literal
                condition = conditions.of(sides[0] & sides[1])
            else:
                condition = conditions.number((node, 0, -1))
        else:
            frame, condition = conditions.joined(node.inputs, node.controls, classes)
            if node.op == "Enter":
                key = (frame, attr(node, "frame_name").s.decode())
                if key not in frames:
                    frames[key] = len(around)
                    around.append((frame, 0))
                frame = frames[key]
                around[frame] = around[frame][0], conditions.join(around[frame][1], condition)
            elif node.op == "Exit":
                frame, condition = around[frame]
        classes[node] = (frame, condition)
    return Flow(order, classes, conditions, resolved)


def _sides(node: Node, classes: dict[Node, Class], conditions: list[Condition]) -> tuple[int, list[Condition]]:
    """The frame of a Merge, and the condition of each of its inputs but the back edge of a loop."""
    frame = 0
    sides: list[Condition] = []
    for source, output in node.inputs:
        if source.op != "NextIteration":
            f, c = classes[source]
            frame = max(frame, f)
            side = conditions[c]
            sides.append(side | {(*predicate(source), output)} if source.op == "Switch" else side)
    return frame, sides


def _resolved(sides: list[Condition]) -> Literal | None:
    """The literal of the first of two conditions that differ in nothing but the branch of one predicate; None if they
    do not."""
    if len(sides) == 2:
        mine, others = sides[0] - sides[1], sides[1] - sides[0]
        if len(mine) == len(others) == 1:
            ((a, i, x),), ((b, j, y),) = mine, others
            if a is b and i == j and {x, y} == {0, 1}:
                return a, i, x
    return None
