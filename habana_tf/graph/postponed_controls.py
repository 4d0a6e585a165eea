"""Control edges taken from nodes without a visible effect, kept until nodes behind them get them.

A node whose effect cannot be seen need not wait for an update by control. Which updates it would have waited for is
kept here (what it *owes*), and the first node behind it that can be seen waits for them in its place (it *pays*). So
every path from an update to a visible node remains a path.
"""

from __future__ import annotations

from habana_tf.graph.frames import ROOT, Flow
from habana_tf.graph.view import Node, View

JUNCTION_FROM = 4
"""From so many assignments on, a waiting node waits for one NoOp that waits for them."""


class Debts:
    """Who still has to wait for whom: masks over the nodes whose control edges were dropped."""

    def __init__(self, view: View, flow: Flow) -> None:
        self.view, self.flow = view, flow
        self.of: dict[Node, int] = {}
        self._bits: dict[Node, int] = {}
        self._nodes: list[Node] = []
        self._junctions: dict[int, Node] = {}

    def bit(self, node: Node) -> int:
        if node not in self._bits:
            self._bits[node] = 1 << len(self._nodes)
            self._nodes.append(node)
        return self._bits[node]

    def pay(self, node: Node, owed: int) -> None:
        """Makes a node wait for everything in `owed`."""
        owed &= ~self._bits.get(node, 0)
        if not owed:
            return
        waits = [n for k, n in enumerate(self._nodes) if owed >> k & 1]
        if len(waits) < JUNCTION_FROM or any(self.flow.classes[n] != ROOT for n in waits):
            for source in waits:
                node.add_control(source)
            return
        if owed not in self._junctions:
            junction = self.view.add(f"{waits[-1].name}/and_before", "NoOp", waits[-1].device)
            junction.controls = waits
            self.flow.classes[junction] = ROOT
            self._junctions[owed] = junction
        node.add_control(self._junctions[owed])
