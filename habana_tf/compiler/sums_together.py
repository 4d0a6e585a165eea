"""Finds column sums that could be computed by the same loop, and the tensors that each reads.

Batch norm's gradient has two: of dy, and of dy * (x - mean). A loop reads dy once for both. The second one needs a
loop, because of x, so fusing the first one into the producer of dy saves nothing (see `fuse`).
"""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.compiler.body_builder import BodyBuilder, loop
from habana_tf.ir import extent as ext
from habana_tf.ir.primitives import Node, Op, Shape


class SumsTogether:
    """The sums over all axes but the last in a program. nodes: sources first."""

    def __init__(self, nodes: Sequence[Node], kept: set[Node]) -> None:
        self._kept = kept
        self._reads: dict[Node, frozenset[Node]] = {}
        self._alike: dict[Shape, list[Node]] = {}
        self._before: dict[Node, int] = {}
        self._bits: dict[Node, int] = {}
        for n in nodes:
            before = 0
            for s in n.src:
                before |= self._before[s] | self._bits.get(s, 0)
            self._before[n] = before
            if n.op is Op.REDUCE and n.arg == ("sum", tuple(range(n.src[0].rank - 1))):
                self._bits[n] = 1 << len(self._bits)
                self._alike.setdefault(n.src[0].shape, []).append(n)

    def beside(self, node: Node) -> list[frozenset[Node]]:
        """For each other, independent sum over the same shape: the tensors of about that size that it reads."""
        if node not in self._bits:
            return []
        return [
            self._large(n)
            for n in self._alike[node.src[0].shape]
            if n is not node and not self._before[n] & self._bits[node] and not self._before[node] & self._bits[n]
        ]

    def _large(self, node: Node) -> frozenset[Node]:
        if node not in self._reads:
            terms = node.src[0]
            body = loop(terms.shape, [], [node], node.arg[1], BodyBuilder(self._kept, {node}))
            row = ext.nominal(terms.shape[-1])
            self._reads[node] = frozenset(n for n in body.reads if ext.nominal(n.numel) > row)
        return self._reads[node]
