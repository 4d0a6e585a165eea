"""Values made of symbolic extents agree with the numbers the interpreter computes from the sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from habana_tf.ir import extent as ext
from habana_tf.ir import interpreter
from habana_tf.ir.builder import Builder
from habana_tf.ir.conditions import Premises, hold
from habana_tf.ir.constant_folding import constant
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node, Program

I32 = DType.I32
S, T = ext.sym(0), ext.sym(1)


def vector(b: Builder, *sizes: ext.Extent) -> Node:
    return b.concat([b.reshape(b.extent(e, I32), (1,)) for e in sizes], 0)


def check(b: Builder, node: Node, want: Sequence[str]) -> None:
    """The value is `want` in symbols, and what the interpreter computes for some sizes."""
    value = constant(node, {})
    assert value is not None and list(map(str, value.reshape(-1))) == list(want)
    for dims in ([1, 1], [7, 3], [64, 50]):
        (numbers,) = interpreter.run(interpreter.bind(Program(b.inputs, [node]), dims), [])
        assert [ext.evaluate(e, dims) for e in value.reshape(-1).tolist()] == numbers.reshape(-1).tolist()


def test_shapes_are_picked_apart_and_put_together() -> None:
    b = Builder()
    shape = vector(b, S, 8, T)
    check(b, b.slice(shape, (0,), (2,)), ["s0", "8"])
    check(b, b.concat([b.slice(shape, (2,), (1,)), b.const(5, I32, (1,))], 0), ["s1", "5"])
    check(b, b.gather(shape, [b.literal(np.array([2, 0], np.int32))], [0]), ["s1", "s0"])


def test_shape_arithmetic() -> None:
    b = Builder()
    shape = vector(b, S, 8, T)
    check(b, b.reduce("prod", shape, [0]), ["8*s0*s1"])
    check(b, b.binary("floordiv", b.reduce("prod", shape, [0]), b.const(4, I32)), ["2*s0*s1"])
    check(b, b.binary("floordiv", b.reduce("prod", shape, [0]), b.extent(S, I32)), ["8*s1"])
    check(b, b.binary("max", b.extent(S, I32), b.const(1, I32)), ["s0"])
    check(b, b.binary("min", b.extent(S, I32), b.extent(ext.add(S, 3), I32)), ["s0"])
    check(b, b.binary("sub", b.binary("add", b.extent(S, I32), b.const(2, I32)), b.extent(S, I32)), ["2"])
    check(b, b.binary("floormod", b.extent(ext.mul(S, 6), I32), b.const(3, I32)), ["0"])
    check(b, b.cast(b.extent(S, DType.I64), I32), ["s0"])


@pytest.mark.parametrize("fn", ["eq", "lt", "max", "floordiv"])
def test_what_depends_on_the_size_is_not_known(fn: str) -> None:
    b = Builder()
    assert constant(b.binary(fn, b.extent(S, I32), b.extent(T, I32)), {}) is None


def test_comparisons_are_asked_of_the_premises() -> None:
    def value(fn: str, premises: Premises) -> str:
        b = Builder()
        compared = b.binary(fn, b.extent(S, I32), b.const(5, I32))
        return str(constant(b.cast(compared, I32), {}, premises))

    for n in (3, 5, 8):
        want = {"lt": n < 5, "le": n <= 5, "gt": n > 5, "ge": n >= 5, "eq": n == 5, "ne": n != 5}
        for fn, holds in want.items():
            premises = Premises([n])
            assert value(fn, premises) == str(int(holds))
            assert hold(premises.conditions, [n]) and premises.conditions


def test_remainders_of_negative_sizes() -> None:
    b = Builder()
    n = b.extent(S, I32)
    missing = b.binary("floormod", b.map("neg", n), b.const(4, I32))
    check(b, b.binary("floordiv", b.binary("add", n, missing), b.const(4, I32)), ["((s0+3)//4)"])
