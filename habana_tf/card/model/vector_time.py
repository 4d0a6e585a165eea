"""How long the TPCs take for a kernel, by counting its vector instructions of 256 bytes.

A vector holds 64 elements of fp32 or 128 of bf16. Each primitive operation counts as so many instructions per vector:
an addition and a multiplication half a one each (multiply-add), a change of type none (it comes with load or store), a
function some ten (computed in fp32 from tables and polynomials), random numbers as many, a division or a root half of
that. The counts come from the structure of such code and are not measured. `Parameters.tpc_rate`, the fitted rate at
which instructions are issued, absorbs their common error.
"""

from __future__ import annotations

from habana_tf.card.model.kernels import Unit, size
from habana_tf.hardware.chips import Chip
from habana_tf.ir.primitives import Op

FUNCTION = 10.0
"""Instructions of exp, log, tanh and their like on a vector."""
ROOT = 5.0
"""Of a division or a root: a first guess from a table, and two steps."""
FUSED = 0.5
"""Of a multiplication or an addition, two of which are one instruction."""

INSTRUCTIONS: dict[str, float] = {
    **dict.fromkeys(
        "exp expm1 log log1p sin cos tan asin acos atan sinh cosh asinh acosh atanh atan2 tanh sigmoid erf erfc pow "
        "lgamma".split(),
        FUNCTION,
    ),
    **dict.fromkeys("div sqrt rsqrt floordiv floormod truncmod".split(), ROOT),
    **dict.fromkeys(("add", "sub", "mul"), FUSED),
    **dict.fromkeys(("cast", "bitcast", "stored"), 0.0),
}
"""Of a scalar function on one vector; 1 for those that are not named."""


def instructions(chip: Chip, unit: Unit) -> float:
    """Vector instructions of a kernel, all TPCs together."""
    width = _element_bytes(unit)
    total = 0.0
    for n in unit.inside:
        if n.op is Op.MAP:
            each = INSTRUCTIONS.get(n.arg, 1.0)
            total += each * size(n) * (4 if each == FUNCTION else width)
        elif n.op is Op.RANDOM:
            total += FUNCTION * size(n) * n.dtype.bytes
        elif n.op is Op.REDUCE or n.op is Op.SCAN:
            total += FUSED * size(n.src[0]) * width
        elif n.op is Op.SORT:
            sorted_ = size(n.src[0])
            total += sorted_ * max(1, sorted_.bit_length()) ** 2 / 2 * width
        else:
            total += size(n) * width
    return total / chip.tpc_vector_bytes


def _element_bytes(unit: Unit) -> int:
    """Bytes of the type that a kernel computes in: the widest floating type of its large tensors, else fp32."""
    tensors = [t for t in (*unit.loads, *unit.stores) if t.dtype.is_float]
    largest = max(map(size, tensors), default=0)
    return min(4, max((t.dtype.bytes for t in tensors if 4 * size(t) >= largest), default=4))


def vector_seconds(chip: Chip, unit: Unit) -> float:
    """Time of a kernel on all TPCs, operands in reach, at one instruction per cycle."""
    return instructions(chip, unit) / (chip.tpc_engines * chip.tpc_clock)


def operations(unit: Unit) -> int:
    """Operations of a kernel, for a roofline: one per element for each scalar function and for each term of a sum, none
    for changes of type."""
    total = 0
    for n in unit.inside:
        if n.op is Op.MAP:
            total += size(n) if INSTRUCTIONS.get(n.arg, 1.0) else 0
        elif n.op is Op.REDUCE or n.op is Op.SCAN:
            total += size(n.src[0])
    return total
