"""Operands of products in 8 bits, which kernels of products read as they are (see `contraction.OPERANDS`).

    contract(cast(a: int8, bfloat16), b)     ->     contract(a, b)

A kernel that casts a weight before its product would write and read two bytes for each one, which takes longer than a
product of few rows.
"""

from __future__ import annotations

from dataclasses import replace

from habana_tf.compiler.contraction import OPERANDS
from habana_tf.compiler.primitive_classes import primitive
from habana_tf.compiler.primitive_families import IndexView
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Node, Op, with_sources


def narrow(node: Node) -> Node:
    """The node, or a product of the same numbers that reads operands in 8 bits where they were cast from them."""
    if node.op is not Op.CONTRACT or node.arg.accumulator is not DType.F32 or node.arg.largest is not None:
        return node
    return with_sources(node, tuple(_before_cast(s) for s in node.src))


def _before_cast(x: Node) -> Node:
    """The tensor that views of a cast see, through the same views; x itself if there is no cast from 8 bits."""
    if x.op is Op.MAP and x.arg == "cast" and x.dtype in (DType.BF16, DType.F32):
        (source,) = x.src
        return source if source.dtype.bits == 8 and source.dtype in OPERANDS else x
    if len(x.src) != 1 or not isinstance(primitive(x), IndexView):
        return x
    below = _before_cast(x.src[0])
    return x if below is x.src[0] else replace(x, src=(below,), dtype=below.dtype)


def wide(b: Builder, x: Node, spec: Contraction) -> Node:
    """An operand in the type that a product adds up in."""
    made = b.cast(x, spec.accumulator)
    if spec.largest is None or x.dtype is not DType.F8E4M3:
        return made
    end, nan = (b.const(value, made.dtype, x.shape) for value in (spec.largest, float("nan")))
    return b.select(b.map("gt", b.map("abs", made), end), nan, made)
