"""Converts Philox words to numbers, exactly as TensorFlow's random_distributions.h does on the CPU.

A stream is a `state` (uint32[6]: 128-bit counter, 64-bit key). Every function gives the first n results of it:

    uniform, normal, 32-bit integers   result i comes from word i (normal: words 2j, 2j+1 give results 2j, 2j+1)
    64-bit integers                    result i comes from words 2i (low half) and 2i+1
    truncated normal                   results 4g..4g+3 are the first four normals within two standard deviations
                                       of a stretch of the stream that begins 256 g blocks after the counter

bfloat16 results come from the same words as float32 ones (uniform: from seven bits of each).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node

SAMPLES_PER_RESULT = 256
"""Blocks of 128 bits that TensorFlow reserves for each result of an op."""

CANDIDATES = 16
"""Normals drawn per four truncated ones. A normal lies outside two standard deviations with probability 0.0455;
13 or more of 16 do with probability 2e-15, and then the results that are missing are 0."""


def uniform(b: Builder, state: Node, n: Extent, dtype: DType) -> Node:
    """n numbers in [0, 1)."""
    words = b.random(state, n)
    if dtype is DType.BF16:
        bits = b.binary("or", b.binary("and", words, b.const(0x7F, DType.U32)), b.const(0x3F80, DType.U32))
        number = b.map("bitcast", b.cast(bits, DType.U16), dtype=DType.BF16)
        return b.binary("sub", number, b.const(1, DType.BF16))
    return _unit(b, words)


def _unit(b: Builder, words: Node) -> Node:
    """float32 in [0, 1) from the low 23 bits of words."""
    bits = b.binary("or", b.binary("and", words, b.const(0x7FFFFF, DType.U32)), b.const(0x3F800000, DType.U32))
    return b.binary("sub", b.map("bitcast", bits, dtype=DType.F32), b.const(1, DType.F32))


def uniform_53(b: Builder, state: Node, n: Extent) -> Node:
    """n float32 in [0, 1], of the numbers that TensorFlow draws in float64 from two words each: 20 bits, then 32."""
    words = b.reshape(b.random(state, ext.mul(n, 2)), (n, 2))
    first, second = (b.slice(words, (0, k), (n, 1)) for k in (0, 1))
    upper = b.cast(b.binary("and", first, b.const(0xFFFFF, DType.U32)), DType.F32)
    lower = b.cast(second, DType.F32)
    number = b.binary("add", b.binary("mul", upper, b.const(2.0**-20, DType.F32)),
                      b.binary("mul", lower, b.const(2.0**-52, DType.F32)))  # fmt: skip
    return b.reshape(number, (n,))


def _box_muller(b: Builder, words: Node) -> Node:
    """float32 normals of the same flat shape from an even number of words."""
    pairs: Extent = ext.div(words.shape[0], 2)
    table = b.reshape(words, (pairs, 2))
    first = _unit(b, b.slice(table, (0, 0), (pairs, 1)))
    second = _unit(b, b.slice(table, (0, 1), (pairs, 1)))
    logarithm = b.map("log", b.binary("max", first, b.const(1e-7, DType.F32)))
    radius = b.map("sqrt", b.binary("mul", logarithm, b.const(-2, DType.F32)))
    angle = _turns(b, second)
    both = b.concat([b.map("mul", b.map(fn, angle), radius) for fn in ("sin", "cos")], 1)
    return b.reshape(both, words.shape)


TWO_PI_HEAD = 6.28125  # 12 bits of 2 pi
TWO_PI_REST = 2 * math.pi - TWO_PI_HEAD


def _turns(b: Builder, part: Node) -> Node:
    """2 pi * part as TensorFlow has it: multiplied in float64, rounded to float32.

    part is k / 2**23. Its upper 12 bits times the upper 12 bits of 2 pi is exact; the rest is 2**-11 of it, so that
    float32 arithmetic gives the same but for one angle in a thousand, which is a unit off.
    """

    def times(x: Node, factor: float) -> Node:
        return b.binary("mul", x, b.const(factor, DType.F32))

    shifted = b.binary("add", part, b.const(1, DType.F32))
    upper = b.binary("and", b.map("bitcast", shifted, dtype=DType.U32), b.const(0xFFFFF800, DType.U32))
    head = b.binary("sub", b.map("bitcast", upper, dtype=DType.F32), b.const(1, DType.F32))
    rest = b.binary("add", times(head, TWO_PI_REST), times(b.binary("sub", part, head), 2 * math.pi))
    return b.binary("add", times(head, TWO_PI_HEAD), rest)


def normal(b: Builder, state: Node, n: Extent, dtype: DType) -> Node:
    """n standard normals."""
    even = ext.mul(ext.div(ext.add(n, 1), 2), 2)
    return b.cast(b.slice(_box_muller(b, b.random(state, even)), (0,), (n,)), dtype)


def truncated_normal(b: Builder, state: Node, n: Extent, dtype: DType) -> Node:
    """n standard normals within two standard deviations."""
    groups = ext.div(ext.add(n, 3), 4)
    words = b.random(state, ext.mul(groups, CANDIDATES), run=CANDIDATES // 4, skip=SAMPLES_PER_RESULT)
    normals = b.reshape(_box_muller(b, words), (groups, CANDIDATES))
    inside = b.binary("lt", b.map("abs", normals), b.const(2, DType.F32))
    place = b.scan("sum", b.cast(inside, DType.I32), 1, exclusive=True)
    place = b.select(inside, place, b.const(4, DType.I32))  # nowhere
    results = b.const(0, DType.F32, (groups, 4))
    results = b.scatter(results, normals, [b.iota(place.shape, 0, DType.I32), place], (0, 1), "set")
    return b.cast(b.slice(b.reshape(results, (ext.mul(groups, 4),)), (0,), (n,)), dtype)


def integers(b: Builder, state: Node, n: Extent, dtype: DType) -> Node:
    """n integers, uniform over the whole range of `dtype` (32 or 64 bits)."""
    if dtype.bits == 32:
        return b.map("bitcast", b.random(state, n), dtype=dtype)
    words = b.reshape(b.random(state, ext.mul(n, 2)), (n, 2))
    low, high = (b.cast(b.slice(words, (0, k), (n, 1)), DType.U64) for k in (0, 1))
    joined = b.binary("or", low, b.binary("shl", high, b.const(32, DType.U64)))
    return b.map("bitcast", b.reshape(joined, (n,)), dtype=dtype)


def integers_between(b: Builder, state: Node, n: Extent, low: Node, high: Node) -> Node:
    """n integers in [low, high), by remainder as TensorFlow does; low and high are scalars."""
    signed, unsigned = low.dtype, DType.U32 if low.dtype.bits == 32 else DType.U64
    start, stop = (b.map("bitcast", x, dtype=unsigned) for x in (low, high))
    offset = b.binary("truncmod", integers(b, state, n, unsigned), b.binary("sub", stop, start))
    return b.map("bitcast", b.binary("add", offset, start), dtype=signed)


# -- states ---------------------------------------------------------------------------------------------------


# A handful of numbers each: put together by selects, which are one elementwise pass, not by concatenation.


def items(b: Builder, x: Node) -> list[Node]:
    """The elements of a short vector, as vectors of one."""
    n = x.shape[0]
    assert isinstance(n, int)
    return [b.slice(x, (k,), (1,)) for k in range(n)]


def vector(b: Builder, parts: Sequence[Node]) -> Node:
    """Vectors of one put together: the inverse of `items`."""
    line = b.iota((len(parts),), 0, DType.I32)
    out = b.expand(parts[-1], line.shape)
    for k, part in enumerate(parts[:-1]):
        out = b.select(b.binary("eq", line, b.const(k, DType.I32)), part, out)
    return out


def state_of(b: Builder, counter: Node, key: Node) -> Node:
    """The state for a counter uint64[2] and a key uint64[1]: their halves, low first."""
    words = []
    for x in (*items(b, counter), key):
        words += [b.cast(x, DType.U32), b.cast(b.binary("shr", x, b.const(32, DType.U64)), DType.U32)]
    return vector(b, words)


def scrambled(b: Builder, seed: Node) -> tuple[Node, Node]:
    """Counter uint64[2] and key uint64[1] that the stateless ops make of a seed (int32 or int64, [2])."""
    given = b.map("bitcast", b.cast(seed, DType.I64), dtype=DType.U64)
    fixed = b.const(0x02461E293EC8F720, DType.U64, (1,))
    mixed = [b.cast(x, DType.U64) for x in items(b, b.random(state_of(b, given, fixed), 4))]

    def joined(low: Node, high: Node) -> Node:
        return b.binary("or", low, b.binary("shl", high, b.const(32, DType.U64)))

    counter = vector(b, [b.const(0, DType.U64, (1,)), joined(mixed[2], mixed[3])])
    return counter, joined(mixed[0], mixed[1])


def skip(b: Builder, counter: Node, results: Node) -> list[Node]:
    """The two words of the counter (uint64[2]) after `results` (a uint64 scalar) results.

    The distance is taken modulo 2**64 blocks, as in TensorFlow.
    """
    blocks = b.reshape(b.binary("mul", results, b.const(SAMPLES_PER_RESULT, DType.U64)), (1,))
    low, high = items(b, counter)
    new = b.binary("add", low, blocks)
    carry = b.cast(b.binary("lt", new, low), DType.U64)
    return [new, b.binary("add", high, carry)]
