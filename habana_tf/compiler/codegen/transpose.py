"""Transposes square blocks of vectors in registers."""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.compiler.codegen.emit import BYTES, Function, Value


def transpose(fn: Function, element: str, lines: list[Value]) -> list[Value]:
    """Transposes a square block of vectors in log2(lanes) rounds of shuffles.

    First within 128-bit blocks, by interleaving halves of two vectors, then whole blocks, by taking every other one of
    two vectors: each shuffle is a single x86 instruction for any width. A fence between the rounds, which is no
    instruction, stops LLVM's search for better shuffles across all of them, which took ten milliseconds in vain.
    """
    lanes = len(lines)
    vector = f"<{lanes} x {element}>"
    block = min(lanes, 16 // BYTES[element])

    def shuffled(x: Value, y: Value, order: Sequence[int]) -> Value:
        if x == y == "zeroinitializer":
            return x
        places = ", ".join(f"i32 {k}" for k in order)
        return fn.op(f"shufflevector {vector} {x}, {vector} {y}, <{lanes} x i32> <{places}>")

    def pairs(lines: Sequence[Value], order: Sequence[int]) -> list[Value]:
        """The same shuffle of each pair of neighbours."""
        return [shuffled(x, y, order) for x, y in zip(lines[::2], lines[1::2], strict=True)]

    def within(lines: Sequence[Value], unit: int) -> list[Value]:
        """Interleaves runs of `unit` elements within blocks, of their first halves, then of their second ones."""
        if len(lines) == 1:
            return list(lines)
        made = []
        for half in (0, block // 2):
            starts = (k for first in range(half, lanes, block) for k in range(first, first + block // 2, unit))
            order = [side + k for start in starts for side in (0, lanes) for k in range(start, start + unit)]
            made += within(pairs(lines, order), 2 * unit)
        return made

    def across(lines: Sequence[Value]) -> list[Value]:
        """Even blocks of both vectors, then odd ones."""
        if len(lines) == 1:
            return list(lines)
        made = []
        for first in (0, block):
            starts = range(first, 2 * lanes, 2 * block)
            made.append(across(pairs(lines, [k for start in starts for k in range(start, start + block)])))
        return [x for both in zip(*made, strict=True) for x in both]

    groups = [[_fenced(fn, element, lanes, x) for x in within(lines[k : k + block], 1)] for k in range(0, lanes, block)]
    columns = [across(column) for column in zip(*groups, strict=True)]
    return [x for row in zip(*columns, strict=True) for x in row]


def _fenced(fn: Function, element: str, lanes: int, value: Value) -> Value:
    """The value behind an optimization fence, for lanes of 32 bits."""
    if BYTES[element] != 4 or value == "zeroinitializer":
        return value
    vector, floats = f"<{lanes} x {element}>", f"<{lanes} x float>"
    if element != "float":
        value = fn.op(f"bitcast {vector} {value} to {floats}")
    value = fn.call(floats, f"llvm.arithmetic.fence.v{lanes}f32", (floats, value))
    return value if element == "float" else fn.op(f"bitcast {floats} {value} to {vector}")
