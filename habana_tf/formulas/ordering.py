"""What numbers are sorted by, their signs, and the least and greatest of a type."""

from __future__ import annotations

from habana_tf.formulas.term import Term
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


def is_negative(x: Term) -> Term:
    """Whether the sign of a floating-point number is a minus: also of -0.0 and of NaN."""
    bits = x.b.map("bitcast", x.b.cast(x.node, DType.F32), dtype=DType.I32)
    return Term(x.b, bits).test("lt", 0)


def limits(dtype: DType) -> tuple[float, float]:
    """The least and the greatest number of a type, the finite ones of a floating-point type."""
    if dtype.is_float:
        greatest = float.fromhex("0x1.fffffep127" if dtype is DType.F32 else "0x1.fep127")
        return -greatest, greatest
    whole = dtype.bits - (dtype.kind == "i")
    return -(1 << whole) if dtype.kind == "i" else 0, (1 << whole) - 1
