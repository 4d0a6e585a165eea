"""How long the TPCs take for a kernel, by counting its vector instructions of 256 bytes.

A vector holds 64 elements of fp32 or 128 of bf16. Each primitive operation counts as so many instructions per vector:
an addition and a multiplication half a one each (multiply-add), a change of type none (it comes with load or store), a
random number one, read from a register. Functions are counted in Habana's own code (`tpc-special.h` of its open TPC
compiler, Apache-2.0 with LLVM exceptions: exp 29, tanh 16, ...), special values included. They have tables for bf16
too, and are computed in the type of their tensors, but in fp32 in a kernel that sums (softmax, normalization).

`Parameters.tpc_rate`, the fitted rate at which instructions are issued, absorbs the common error of these counts.
"""

from __future__ import annotations

from habana_tf.card.model.kernels import Unit, size, through_views
from habana_tf.hardware.chips import Chip
from habana_tf.ir.primitives import Node, Op

FUSED = 0.5
"""Of a multiplication or an addition, two of which are one instruction."""
RANDOM = 1.0
SORTED = 0.5
"""Of each of the comparisons of a sorting network."""
FP32_BYTES = 4

FUNCTIONS: dict[str, float] = {
    "exp": 29, "expm1": 81, "log": 36, "log1p": 36, "pow": 78, "tanh": 16, "sigmoid": 18, "sin": 33, "cos": 33,
    "tan": 42, "asin": 42, "acos": 73, "atan": 66, "sinh": 62, "cosh": 43, "asinh": 66, "acosh": 118, "atanh": 64,
    "div": 26, "floormod": 32, "truncmod": 32, "sqrt": 17, "rsqrt": 16,
    "floordiv": 27, "atan2": 92, "erf": 20, "erfc": 20, "lgamma": 72,
}  # fmt: skip
"""Instructions on a vector. Those of the last line are not in that code: a quotient and what rounds it or takes its
arc, erf as tanh with more terms, lgamma as two logarithms."""

INSTRUCTIONS: dict[str, float] = {
    **FUNCTIONS,
    **dict.fromkeys(("add", "sub", "mul"), FUSED),
    **dict.fromkeys(("cast", "bitcast", "stored"), 0.0),
}
"""Of a scalar function on one vector; 1 for those that are not named."""


def instructions(chip: Chip, unit: Unit) -> float:
    """Vector instructions of a kernel, all TPCs together; of one that writes into a tensor, for what it writes."""
    width = _element_bytes(unit)
    function_width = FP32_BYTES if any(n.op is Op.REDUCE for n in unit.inside) else width
    total = 0.0
    for n in unit.inside:
        if n.op is Op.MAP:
            each = _of_map(n)
            walked = min(size(n), unit.elements) if unit.in_place else size(n)
            total += each * walked * (function_width if n.arg in FUNCTIONS and each > FUSED else width)
        elif n.op is Op.RANDOM:
            total += RANDOM * size(n) * n.dtype.bytes
        elif n.op is Op.REDUCE or n.op is Op.SCAN:
            total += FUSED * size(n.src[0]) * width
        elif n.op is Op.SORT:
            sorted_ = size(n.src[0])
            total += SORTED * sorted_ * max(1, sorted_.bit_length()) ** 2 * width
        elif n.op is not Op.LOOP:
            total += unit.in_place.get(n, size(n)) * width
    return total / chip.tpc_vector_bytes


def _of_map(n: Node) -> float:
    """Instructions of a scalar function on one vector. A division by a number of each row is a multiplication: its
    reciprocal is computed once for the row."""
    if n.arg == "div" and max((size(seen.tensor) for seen in through_views(n.src[1])), default=1) < size(n):
        return FUSED
    return INSTRUCTIONS.get(n.arg, 1.0)


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
