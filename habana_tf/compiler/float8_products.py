"""Widens 8-bit operands of products to bfloat16, which holds their numbers: kernels of products take that and float32.

    out = contract(a: float8, b: float8)     ->     out = contract(cast(a, bfloat16), cast(b, bfloat16))

On a card the arrays take 8 bits as they are, and the model of a card sees the program before.
"""

from __future__ import annotations

from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Node, Op


def widened(node: Node) -> Node:
    """The node, or a product of the same numbers without 8-bit operands."""
    if node.op is not Op.CONTRACT or all(s.dtype.bits > 8 for s in node.src):
        return node
    spec: Contraction = node.arg
    b = Builder()
    b.origin = node.origin
    a, c = (_widened(b, s, spec.largest) if s.dtype.bits == 8 else s for s in node.src)
    return b.contract(a, c, Contraction(spec.a, spec.b, spec.out, spec.accumulator), node.dtype)


def _widened(b: Builder, x: Node, largest: float | None) -> Node:
    wide = b.cast(x, DType.BF16)
    if largest is None or x.dtype is not DType.F8E4M3:
        return wide
    end, nan = (b.const(value, DType.BF16, x.shape) for value in (largest, float("nan")))
    return b.select(b.map("gt", b.map("abs", wide), end), nan, wide)
