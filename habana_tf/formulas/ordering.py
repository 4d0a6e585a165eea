"""What numbers are sorted by."""

from __future__ import annotations

from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node


def float_key(b: Builder, x: Node) -> Node:
    """int32 that order as floating-point numbers of up to 32 bits do: -0 is 0, NaN above all."""
    number = b.map("add", b.cast(x, DType.F32), b.const(0, DType.F32, x.shape))  # -0 + 0 is 0
    bits = b.map("bitcast", number, dtype=DType.I32)
    turned = b.map("xor", bits, b.const((1 << 31) - 1, DType.I32, x.shape))
    key = b.select(b.map("lt", bits, b.const(0, DType.I32, x.shape)), turned, bits)
    return b.select(b.map("isnan", number), b.const((1 << 31) - 1, DType.I32), key)
