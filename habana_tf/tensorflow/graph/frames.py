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

from dataclasses import dataclass

from habana_tf.tensorflow.graph.ops import attr
from habana_tf.tensorflow.graph.view import Node, Ref, View, behind

Literal = tuple[Node, int, int]
"""Predicate tensor (node, output) and branch; branch -1 for a condition that is one node's own."""
Condition = frozenset[Literal]
Class = tuple[int, int]
"""(frame, condition), both as numbers; (0, 0) is outside every loop and branch."""

ROOT: Class = (0, 0)


@dataclass
class Flow:
    """`classes`: per node. `conditions`: by number. `order`: the topological order it was computed in."""

    order: list[Node]
    classes: dict[Node, Class]
    conditions: list[Condition]

    def condition(self, node: Node) -> Condition:
        return self.conditions[self.classes[node][1]]

    def holds(self, cls: Class, inputs: list[Ref], controls: list[Node]) -> bool:
        """Whether these inputs alone would put a node into a class."""
        frame, condition = 0, frozenset[Literal]()
        for node, output in inputs:
            frame = max(frame, self.classes[node][0])
            condition |= self.condition(node)
            if node.op == "Switch":
                condition |= {(*predicate(node), output)}
        for node in controls:
            frame = max(frame, self.classes[node][0])
            condition |= self.condition(node)
        return (frame, condition) == (cls[0], self.conditions[cls[1]])


def predicate(switch: Node) -> tuple[Node, int]:
    """The predicate of a Switch, traced so that equal ones are recognized."""
    return behind(switch.inputs[1], ("Identity", "Switch"))  # it may itself be sent through a Switch


def _side(ref: Ref, flow: Flow) -> frozenset[Literal]:
    node, output = ref
    condition = flow.condition(node)
    return condition | {(*predicate(node), output)} if node.op == "Switch" else condition


def resolved(merge: Node, flow: Flow) -> Literal | None:
    """The predicate that a Merge resolves, with the branch of its first input."""
    if len(merge.inputs) != 2 or any(n.op == "NextIteration" for n, _ in merge.inputs):
        return None
    first, second = (_side(ref, flow) for ref in merge.inputs)
    mine, others = list(first - second), list(second - first)
    if len(mine) != 1 or len(others) != 1 or mine[0][:2] != others[0][:2] or {mine[0][2], others[0][2]} != {0, 1}:
        return None
    return mine[0]


class _Conditions:
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

    def joined(self, node: Node, classes: dict[Node, Class]) -> Class:
        """The innermost frame and the common condition of the inputs of a node."""
        frame = condition = 0
        for source, output in node.inputs:
            inner, under = classes[source]
            frame = max(frame, inner)
            if source.op == "Switch":
                under = self.join(under, self.number((*predicate(source), output)))
            elif source.op == "_SwitchN":
                under = self.join(under, self.number((source, output, -1)))
            condition = self.join(condition, under)
        for source in node.controls:
            inner, under = classes[source]
            frame = max(frame, inner)
            condition = self.join(condition, under)
        return frame, condition


def analyse(view: View) -> Flow:
    """The class of every node. Linear in the size of the graph."""
    order = view.topological()
    if not any(n.op in ("Switch", "Enter", "_SwitchN", "Merge") for n in order):
        return Flow(order, dict.fromkeys(order, ROOT), [frozenset()])
    conditions = _Conditions()
    frames: dict[tuple[int, str], int] = {}
    around: list[Class] = [ROOT]
    """Of each loop, the frame it is in and the condition under which it is entered."""
    iterations: dict[int, Node] = {}
    classes: dict[Node, Class] = {}
    for node in order:
        if node.op == "Merge":
            frame, sides = _sides(node, classes, conditions.all)
            if any(n.op == "NextIteration" for n, _ in node.inputs):
                condition = conditions.number((iterations.setdefault(frame, node), 0, -1))
            else:
                common = _common(sides)
                condition = conditions.number((node, 0, -1)) if common is None else conditions.of(common)
        else:
            frame, condition = conditions.joined(node, classes)
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
    return Flow(order, classes, conditions.all)


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


def _common(sides: list[Condition]) -> Condition | None:
    """What is left of two conditions that differ in nothing but the branch of one predicate; None if they do not."""
    if len(sides) == 2:
        only = sides[0] ^ sides[1]
        if len(only) == 2:
            (a, i, x), (b, j, y) = only
            if a is b and i == j and {x, y} == {0, 1}:
                return sides[0] & sides[1]
    return None
