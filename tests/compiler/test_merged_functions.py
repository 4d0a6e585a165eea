"""Functions that differ in numbers become one; what they compute stays."""

from __future__ import annotations

import numpy as np
import pytest

from habana_tf.compiler import costs
from habana_tf.compiler.codegen.generate import generate
from habana_tf.compiler.codegen.merged_functions import merge, shape
from habana_tf.compiler.packed_recipe import pack, unpack
from habana_tf.compiler.rewrite import rewrite
from habana_tf.compiler.schedule import schedule
from habana_tf.hardware.cpu import target
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node, Program
from tests.compiler.running import check

PARTS = 12


def body(step: int, more: int, rest: str = "") -> str:
    return f"(ptr noalias %dims) {{\nentry:\n  %v1 = add nsw i64 %v0, {step}\n  %v2 = add nsw i64 %v1, {more}\n{rest}}}"


def functions(program: Program) -> int:
    return generate(schedule(rewrite(program)), target(), lambda text: None, 1 << 20).functions


def stacked(axis: int, dtype: DType = DType.F32, parts: int = PARTS) -> Program:
    b = Builder()
    inputs = [b.input((3, 1, 5) if axis == 1 else (1, 3, 5), dtype) for _ in range(parts)]
    return Program(inputs, [b.concat(inputs, axis)])


def taken_apart(axis: int) -> Program:
    b = Builder()
    x = b.input((PARTS, PARTS, 5), DType.F32)
    cut: list[Node] = []
    for k in range(PARTS):
        starts = [k if a == axis else 0 for a in range(3)]
        cut.append(b.slice(x, starts, [1 if a == axis else n for a, n in enumerate(x.shape)]))
    return Program([x], cut)


def test_only_what_differs_is_a_constant() -> None:
    made = merge([body(16, k) for k in range(costs.MERGED_FUNCTIONS + 1)])
    assert [constants for _, constants in made] == [(k,) for k in range(costs.MERGED_FUNCTIONS + 1)]
    (text,) = {text for text, _ in made}
    assert "%v0, 16\n" in text and "%v1, %c0\n" in text and text.count("load i64, ptr") == 1


def test_a_few_stay_as_they_are() -> None:
    bodies = [body(16, k) for k in range(costs.MERGED_FUNCTIONS)]
    assert merge(bodies) == [(text, ()) for text in bodies]


def test_a_function_that_reads_symbols_stays_as_it_is() -> None:
    reads = "  %v3 = getelementptr inbounds i64, ptr %dims, i64 1\n"
    assert shape(body(1, 2, reads)) != shape(body(1, 3, reads))
    assert shape(body(1, 2, reads)).numbers == ()


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.I64, DType.BOOL], ids=lambda d: d.label)
@pytest.mark.parametrize("axis", [0, 1])
def test_a_stack_of_many(axis: int, dtype: DType) -> None:
    rng = np.random.default_rng(axis)
    program = stacked(axis, dtype)
    recipe = check(program, [(rng.random(tuple(n.shape)) * 9).astype(dtype.numpy) for n in program.inputs])
    assert functions(program) <= 2 and len(recipe.calls) == PARTS
    _, sections = pack(recipe)
    assert unpack("again", sections).calls == recipe.calls


@pytest.mark.parametrize("axis", [0, 1])
def test_many_parts_of_one(axis: int) -> None:
    program = taken_apart(axis)
    check(program, [np.random.default_rng(axis).random((PARTS, PARTS, 5), np.float32)])
    assert functions(program) <= 2


def test_few_parts_have_known_numbers() -> None:
    assert functions(stacked(0, parts=costs.MERGED_FUNCTIONS)) == costs.MERGED_FUNCTIONS
