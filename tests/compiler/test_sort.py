"""SORT against NumPy: every type, rising and falling, ties, NaN, any axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from habana_tf._native import _bridge
from habana_tf.compiler.compile import compile_program
from habana_tf.compiler.costs import SORT_DIGITS
from habana_tf.compiler.recipe import bind
from habana_tf.hardware.cpu import target
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Program
from tests.compiler.running import compiled

TYPES = [DType.F32, DType.BF16, DType.I8, DType.U8, DType.I32, DType.U32, DType.I64, DType.U64, DType.BOOL]


def order(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """NumPy's stable order; falling: larger first, NaN before all, equal ones by rising position."""
    x = x.astype(np.float32) if x.dtype.kind in "fV" else x
    if not descending:
        return np.argsort(x, axis, kind="stable")
    back = np.argsort(np.flip(x, axis), axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - back, axis)


def positions(x: np.ndarray, dtype: DType, axis: int, descending: bool, first: int | None = None) -> np.ndarray:
    b = Builder()
    program = Program([b.input(x.shape, dtype)], [])
    program.outputs.append(b.sort(program.inputs[0], axis, descending, first))
    return compiled(program, [x])[0][0]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_order(dtype: DType, data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=3))
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = drawn(np.random.default_rng(data.draw(st.integers(0, 99))), dtype, shape, data.draw(st.booleans()))
    for descending in (False, True):
        np.testing.assert_array_equal(positions(x, dtype, axis, descending), order(x, axis, descending))


def drawn(numbers: np.random.Generator, dtype: DType, shape: Sequence[int], few: bool) -> np.ndarray:
    """Elements of all kinds; of few different ones, with many ties."""
    if dtype.is_float:
        x = numbers.integers(-3, 3, shape) if few else numbers.normal(size=shape)
        x = np.where(numbers.random(shape) < 0.1, np.nan, np.where(numbers.random(shape) < 0.1, -0.0, x))
        return np.where(numbers.random(shape) < 0.05, np.inf, x).astype(np.float32).astype(dtype.numpy)
    if dtype is DType.BOOL:
        return numbers.random(shape) < 0.5
    info = np.iinfo(dtype.numpy)
    low, high = (0, 4) if few else (info.min, info.max)
    return numbers.integers(low, high, shape, dtype=dtype.numpy, endpoint=True)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_lines_that_are_sorted_by_digits(dtype: DType) -> None:
    """As long as they have to be for it, longer, and all alike; with a symbol for the length shorter ones, too."""
    rng, length = np.random.default_rng(3), ext.sym(0)
    b = Builder()
    given = b.input((length, 3), dtype)
    several = Program(b.inputs, [b.sort(given, 0, descending) for descending in (False, True)])
    recipe = compile_program(several, "test", goal := target())
    for few in (False, True):
        for n in (SORT_DIGITS, SORT_DIGITS + 77, SORT_DIGITS - 1, 1, 5000):
            x = drawn(rng, dtype, (n, 3), few)
            x[:, 2] = x[0, 2]
            made = _bridge.run_program(bind(recipe, [n], None, goal), [x], [])
            for descending, found in zip((False, True), made, strict=True):
                want = order(x, 0, descending)
                np.testing.assert_array_equal(found.view(np.int32).reshape(n, 3), want)
                np.testing.assert_array_equal(positions(x, dtype, 0, descending), want)


def test_long_and_empty_lines() -> None:
    x = np.random.default_rng(0).integers(0, 1000, (2, 5000), dtype=np.int32)
    np.testing.assert_array_equal(positions(x, DType.I32, 1, False), order(x, 1, False))
    assert positions(np.zeros((3, 0), np.float32), DType.F32, 1, False).shape == (3, 0)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_the_first_of_many(dtype: DType, axis: int) -> None:
    """In any order: falling, rising, all the same, and such that what was kept is left behind again and again."""
    rng, n = np.random.default_rng(1), 3000
    rising, mixed = np.arange(n), rng.permutation(n)
    lines = [rising, rising[::-1], np.zeros(n), mixed, rng.integers(0, 5, n), rising % 251]
    x = np.stack(lines).astype(np.float32)
    if dtype.is_float:
        x[3, ::7], x[4, 5::11] = np.nan, -np.inf
        x = x.astype(dtype.numpy)
    else:
        x = x > 1 if dtype is DType.BOOL else (x % 128).astype(dtype.numpy)
    x = x.T if axis == 0 else x
    for first in (1, 17, 100, 700, 3000):
        for descending in (False, True):
            want = np.take(order(x, axis, descending), range(first), axis)
            np.testing.assert_array_equal(positions(np.ascontiguousarray(x), dtype, axis, descending, first), want)
