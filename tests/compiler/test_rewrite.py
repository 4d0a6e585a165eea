"""Rewrites keep the meaning of a program."""

from __future__ import annotations

import numpy as np

from habana_tf.compiler.rewrite import rewrite
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Program
from tests.compiler.running import check


def test_outputs_that_are_inputs_or_stand_twice_become_copies() -> None:
    b = Builder()
    x = b.input((5, 3), DType.F32)
    y = b.map("neg", x)
    program = Program(b.inputs, [x, y, y, x, b.const(2, DType.F32), b.const(2, DType.F32, (4,))])
    changed = rewrite(program)
    assert len(set(changed.outputs)) == 6
    check(program, [np.arange(15, dtype=np.float32).reshape(5, 3)])


def test_an_output_that_is_reshaped_is_not_copied() -> None:
    b = Builder()
    x, y = b.input((6, 4), DType.F32), b.input((4, 10), DType.F32)
    total = b.reduce("sum", b.binary("mul", x, x), [0])
    outputs = [b.reshape(total, (2, 2)), b.reshape(b.reshape(b.map("exp", y), (40,)), (5, 8))]
    recipe = check(Program(b.inputs, outputs), [np.ones((6, 4), np.float32), np.ones((4, 10), np.float32)])
    assert len(recipe.calls) == 2 and [s for _, s in recipe.outputs] == [(2, 2), (5, 8)]


def test_what_is_an_output_twice_in_two_shapes_is_copied_once() -> None:
    b = Builder()
    e = b.map("exp", b.input((4, 10), DType.F32))
    values = [np.random.default_rng(1).random((4, 10), np.float32)]
    for outputs in ([e, b.reshape(e, (40,))], [b.reshape(e, (40,)), b.reshape(e, (10, 4))]):
        check(Program(b.inputs, outputs), values)
    recipe = check(Program(b.inputs, [b.reshape(e, (40,)), e]), values)
    assert [s for _, s in recipe.outputs] == [(40,), (4, 10)]


def test_an_output_that_is_an_input_reshaped_is_a_copy() -> None:
    b = Builder()
    x = b.input((4, 10), DType.F32)
    check(Program(b.inputs, [b.reshape(x, (40,))]), [np.ones((4, 10), np.float32)])
