"""Adds the control edges that keep updates of variables in loops in the order of the iterations.

What: an update that is split into a read, a computation and an assignment (`variables.py`) is no longer atomic. In a
loop the read waits until its iteration has begun in every loop variable, and no loop variable goes on to the next
iteration before the assignment.

Why: TensorFlow runs iterations in parallel as far as data dependences allow. A read that waits only for the handle,
which is the same in every iteration, would run before the assignment of the previous one, and lose its update.

Invariants: control edges stay within a frame. In nested loops the handle enters the inner loop only after the outer
iteration has begun. An update on a branch whose end no loop variable waits for stays one op.
"""

from __future__ import annotations

from habana_tf.tensorflow.graph.frames import Class, Flow
from habana_tf.tensorflow.graph.view import Node, View


class Loops:
    """ends: for every Exit, the Enters and NextIterations of its loop."""

    def __init__(self, view: View, flow: Flow) -> None:
        self.flow = flow
        self.ends: dict[Node, list[Node]] = {}
        self._starts: dict[int, list[Node]] = {}
        self._nexts: dict[int, list[Node]] = {}
        if not any(n.op == "NextIteration" for n in flow.order):
            return
        for node, later in view.exits(view.consumers()).items():
            for end in later:
                self.ends.setdefault(end, []).append(node)
        for node in flow.order:
            frame = flow.classes[node][0]
            if node.op == "NextIteration":
                self._nexts.setdefault(frame, []).append(node)
            elif node.op == "Merge" and any(n.op == "NextIteration" for n, _ in node.inputs):
                self._starts.setdefault(frame, []).append(node)

    def unordered(self, updates: list[Node]) -> list[Node]:
        """Makes the next iteration wait for updates in loops; returns those for which that cannot be."""
        inside = [n for n in updates if self.flow.classes[n][0]]
        if not inside:
            return []
        bits = {n: 1 << k for k, n in enumerate(inside)}
        before: dict[Node, int] = {}
        for node in self.flow.order:
            seen = bits.get(node, 0)
            for source in node.sources():
                seen |= before.get(source, 0)  # a loop's back edge has none yet
            before[node] = seen
        out = []
        for node in inside:
            late = [n for n in self._nexts.get(self.flow.classes[node][0], ()) if not before[n] & bits[node]]
            if any(self.flow.classes[n] != self.flow.classes[node] for n in late):
                out.append(node)
                continue
            for n in late:
                n.add_control(node)
        return out

    def is_body(self, cls: Class) -> bool:
        """Whether nodes of a class run in every iteration of a loop."""
        return any(self.flow.classes[n] == cls for n in self._nexts.get(cls[0], ()))

    def hold(self, read: Node) -> None:
        """Lets a new read in a loop wait for its iteration, and its handle for the iterations of the loops around."""
        self._wait(read, self.flow.classes[read][0])
        node = read
        while (source := node.inputs[0][0]).op in ("Identity", "Switch", "Enter"):
            if source.op == "Enter":
                self._wait(source, self.flow.classes[source.inputs[0][0]][0])
            node = source

    def _wait(self, node: Node, frame: int) -> None:
        for start in self._starts.get(frame, ()):
            node.add_control(start)
