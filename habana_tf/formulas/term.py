"""Nodes with Python's operators, so that a lowering of many steps reads like the formula it comes from.

`wrap(b, node)` computes in the accumulator type (bfloat16 in float32), operands broadcast as in NumPy, numbers
become constants of the other side's type; `done` rounds once to the type wanted.

    x = wrap(b, node);  ((x - x.mean((0,))) * 2).done(node.dtype)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node


@dataclass(frozen=True)
class Term:
    """A node inside a formula; comparisons are methods and give boolean values."""

    b: Builder
    node: Node

    def _other(self, other: Term | float) -> Node:
        return other.node if isinstance(other, Term) else self.b.const(other, self.node.dtype)

    def _binary(self, fn: str, other: Term | float) -> Term:
        return Term(self.b, self.b.binary(fn, self.node, self._other(other)))

    def _swapped(self, fn: str, other: float) -> Term:
        return Term(self.b, self.b.binary(fn, self._other(other), self.node))

    def __add__(self, other: Term | float) -> Term:
        return self._binary("add", other)

    __radd__ = __add__

    def __sub__(self, other: Term | float) -> Term:
        return self._binary("sub", other)

    def __rsub__(self, other: float) -> Term:
        return self._swapped("sub", other)

    def __mul__(self, other: Term | float) -> Term:
        return self._binary("mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Term | float) -> Term:
        return self._binary("div", other)

    def __rtruediv__(self, other: float) -> Term:
        return self._swapped("div", other)

    def __neg__(self) -> Term:
        return self.map("neg")

    def map(self, fn: str) -> Term:
        """A scalar function of one operand."""
        return Term(self.b, self.b.map(fn, self.node))

    def sigmoid(self) -> Term:
        return self.map("sigmoid")

    def tanh(self) -> Term:
        return self.map("tanh")

    def chunk(self, count: int, axis: int) -> list[Term]:
        """`count` equal parts along an axis whose size is known."""
        whole = self.node.shape[axis]
        assert isinstance(whole, int)
        size = whole // count
        return [Term(self.b, self.b.along(self.node, axis, k * size, size)) for k in range(count)]

    def max(self, other: Term | float) -> Term:
        return self._binary("max", other)

    def min(self, other: Term | float) -> Term:
        return self._binary("min", other)

    def pow(self, other: Term | float) -> Term:
        return self._binary("pow", other)

    def test(self, fn: str, other: Term | float) -> Term:
        """A comparison: eq, ne, lt, le, gt, ge."""
        return self._binary(fn, other)

    def like(self, number: float) -> Term:
        """A number of this type."""
        return Term(self.b, self.b.const(number, self.node.dtype))

    def where(self, then: Term | float, otherwise: Term | float) -> Term:
        """`then` where this boolean value holds, else `otherwise`; one of the two is no number."""
        if not isinstance(then, Term):
            assert isinstance(otherwise, Term)
            then = otherwise.like(then)
        return Term(self.b, self.b.select(self.node, then.node, then._other(otherwise)))

    def over(self, kind: str, axes: Sequence[int]) -> Term:
        """A reduction that keeps the axes with size 1."""
        axes = sorted({a % self.node.rank for a in axes})
        kept = [1 if i in axes else n for i, n in enumerate(self.node.shape)]
        return Term(self.b, self.b.reshape(self.b.reduce(kind, self.node, axes), kept))

    def count(self, axes: Sequence[int]) -> Term | float:
        """How many elements lie along these axes, in float32."""
        n = ext.product(self.node.shape[a] for a in axes)
        return float(n) if isinstance(n, int) else Term(self.b, self.b.extent(n, DType.F32))

    def sum(self, axes: Sequence[int]) -> Term:
        return self.over("sum", axes)

    def flat(self, axes: Sequence[int]) -> Term:
        """Without the axes given, each of size 1."""
        gone = {a % self.node.rank for a in axes}
        return Term(self.b, self.b.reshape(self.node, [n for i, n in enumerate(self.node.shape) if i not in gone]))

    def done(self, dtype: DType) -> Node:
        """The node, rounded once to `dtype`."""
        return self.b.cast(self.node, dtype)


def wrap(b: Builder, node: Node) -> Term:
    """A node as a formula's operand, in its accumulator type."""
    return Term(b, b.cast(node, node.dtype.accumulator))
