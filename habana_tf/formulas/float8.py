"""Casts from and to 8-bit floats as the chips have them.

float8_e4m3fn ends at 448 on Gaudi3, as the format does. On Gaudi2 it ends at 240: the codes of the highest exponent
are an infinity and NaN there, as in IEEE 754's formats. float8_e5m2 is IEEE's on both. Gaudi has neither. Sources: see
`hardware.chips.Chip.float8_e4m3_largest`.

A number beyond the largest float8_e4m3fn becomes that one, one beyond the largest float8_e5m2 an infinity, as PyTorch
casts them; what saturates is cut off before (`saturated`).
"""

from __future__ import annotations

from habana_tf.cluster.lowering_context import LoweringError
from habana_tf.formulas.term import Term
from habana_tf.hardware.chips import chip
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import LARGEST_E4M3, DType
from habana_tf.ir.primitives import Node

FLOAT8 = frozenset({DType.F8E4M3, DType.F8E5M2})
LARGEST_E5M2 = 57344.0
"""(1 + 3/4) * 2^15."""


def largest(dtype: DType) -> float:
    """The largest number of an 8-bit format on the simulated chip. Raises LoweringError where the chip lacks it."""
    if (e4m3 := chip().float8_e4m3_largest) is None:
        raise LoweringError(f"{chip().product} has no {dtype}: HABANA_SIM_CHIP=gaudi2 and gaudi3 do")
    return e4m3 if dtype is DType.F8E4M3 else LARGEST_E5M2


def cast(b: Builder, x: Node, dtype: DType) -> Node:
    """x in the type `dtype`; either may be an 8-bit float, or neither. The result is rounded once it is stored."""
    if x.dtype is dtype or not {x.dtype, dtype} & FLOAT8:
        return b.cast(x, dtype)
    wide = widened(b, x)
    if dtype in FLOAT8 and (end := largest(dtype)) < LARGEST_E4M3:
        wide = saturated(wide, end)
    return wide.done(dtype)


def widened(b: Builder, x: Node) -> Term:
    """x in float32: of float8_e4m3fn as the chip reads it."""
    wide = Term(b, b.cast(x, DType.F32))
    if x.dtype is not DType.F8E4M3 or (end := largest(x.dtype)) == LARGEST_E4M3:
        return wide
    size = wide.map("abs")
    special = size.test("eq", 256.0).where(wide * float("inf"), float("nan"))  # 256 has the code of an infinity
    return size.test("gt", end).where(special, wide)


def saturated(x: Term, end: float) -> Term:
    """x between -end and end; NaN stays."""
    return x.min(end).max(-end)
