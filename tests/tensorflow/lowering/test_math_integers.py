"""Elementwise ops on integers and bits against stock TensorFlow: they wrap round, and shifts are clamped."""

from __future__ import annotations

import numpy as np
import pytest
from elementwise import INTS, SIGNED, binary, unary
from harness import check, evaluate


@pytest.mark.parametrize("name", ["Neg", "Abs", "Sign", "Square", "Relu", "Relu6"])
@pytest.mark.parametrize("dtype", [np.dtype("int32"), np.dtype("int64")], ids=str)
def test_unary_integers(name, dtype):
    check(unary(name), np.array([-7, -1, 0, 1, 5, 9], dtype))


def test_round_leaves_integers_alone():
    """Not against TensorFlow: 2.21 rounds all integers to 0 on the CPU."""
    x = np.array([-7, 0, 5], np.int32)
    for outputs in evaluate(unary("Round"), x):
        np.testing.assert_array_equal(outputs[0], x)


WRAPPING = ["AddV2", "Sub", "Mul", "Maximum", "Minimum", "Equal", "Less", "GreaterEqual", "NotEqual"]


@pytest.mark.parametrize("dtype", INTS, ids=str)
@pytest.mark.parametrize("name", WRAPPING)
def test_binary_integers(name, dtype):
    info = np.iinfo(dtype)
    x = np.array([0, 1, info.max, info.min, info.max, 5], dtype)
    y = np.array([3, 1, 1, info.max, info.max, 7], dtype)
    check(binary(name), x, y)


@pytest.mark.parametrize("name", ["FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod", "Mod", "Div"])
def test_integer_division(name):
    x, y = np.array([7, -7, 7, -7, 0, 6], np.int32), np.array([2, 2, -2, -2, 5, -3], np.int32)
    check(binary(name), x, y)
    if name not in ("Mod", "TruncateMod"):
        check(binary(name), np.abs(x).astype(np.uint8), np.abs(y).astype(np.uint8))


def test_integer_powers():
    check(binary("Pow"), np.array([2, -3, 0, 7], np.int32), np.array([10, 3, 0, 1], np.int32))
    check(binary("Pow"), np.array([2, -3], np.int64), np.array([40, 3], np.int64))


def test_integers_that_tensorflow_refuses():
    """No division by zero and no negative exponent is an error: docs/ops.md says what they give."""
    x, zero = np.int32([7, -7, 0]), np.int32([0, 0, 0])
    for name in ("FloorDiv", "TruncateDiv", "FloorMod", "TruncateMod"):
        for (got,) in evaluate(binary(name), x, zero):
            np.testing.assert_array_equal(got, zero)
    for (got,) in evaluate(binary("Pow"), np.int32([2, -6, 0, 1, -1, 3]), np.int32([-1, -2, -3, -1, -1, -2])):
        assert got[:5].tolist() == [0, 0, 0, 1, -1]
        assert int(got[5]) * 9 % 2**32 == 1


@pytest.mark.parametrize("name", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
def test_bits(name):
    for dtype in INTS:
        check(binary(name), np.array([[0b1100], [0b0101]], dtype), np.array([0b1010, 0b0111], dtype))


@pytest.mark.parametrize("name", ["LeftShift", "RightShift"])
def test_shifts_clamp_the_amount(name):
    for dtype in SIGNED:
        check(binary(name), np.array([-8, 8, 1, 100], dtype), np.array([1, 2, 0, 3], dtype))
    check(binary(name), np.array([-8, 8, -1], np.int32), np.array([40, -3, 31], np.int32))
    check(binary(name), np.array([200, 8], np.uint8), np.array([1, 9], np.uint8))


def test_logic():
    a, b = np.array([[True], [False]]), np.array([True, False])
    for name in ("LogicalAnd", "LogicalOr"):
        check(binary(name), a, b)
    check(unary("LogicalNot"), a)
    check(unary("Invert"), np.array([0, 5, -1], np.int32))
    check(binary("Equal"), a, b)
