"""Control edges taken off nodes without an effect, until nodes with an effect behind them get them.

A node without an effect need not wait for an update by control, so its control edge is dropped. Which updates it would
have waited for is kept here (its *pending* controls); the first node behind it with an effect waits for them instead.
So every path from an update to a node with an effect remains a path.
"""

from __future__ import annotations

from habana_tf.tensorflow.graph.frames import ROOT, Flow
from habana_tf.tensorflow.graph.view import Node, View

JUNCTION_FROM = 4
"""From so many assignments on, a waiting node waits for one NoOp that waits for them."""


class PendingControls:
    """of: per node, a mask of the nodes that it does not wait for any more and nodes behind it have to."""

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

    def attach(self, node: Node, pending: int) -> None:
        """Makes a node wait for all nodes of a mask."""
        pending &= ~self._bits.get(node, 0)
        if not pending:
            return
        waits = [n for k, n in enumerate(self._nodes) if pending >> k & 1]
        if len(waits) < JUNCTION_FROM or any(self.flow.classes[n] != ROOT for n in waits):
            for source in waits:
                node.add_control(source)
            return
        if pending not in self._junctions:
            junction = self.view.add(f"{waits[-1].name}/and_before", "NoOp", waits[-1].device)
            junction.controls = waits
            self.flow.classes[junction] = ROOT
            self._junctions[pending] = junction
        node.add_control(self._junctions[pending])
