"""Every scalar function and every cast, compiled, agrees with the interpreter, on one lane and on many."""

from __future__ import annotations

import math

import numpy as np
import pytest

from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import BINARY, UNARY, Program
from tests.compiler.running import check, compiled

INTS = [d for d in DType if d.is_int]
CASTS = [d for d in DType if d not in (DType.F16, DType.F64)]
BITS = {"and", "or", "xor", "shl", "shr", "mulhi", "invert", "not"}
FLOAT_UNARY = sorted(UNARY - BITS - {"cast", "bitcast"})
SIZES = (1, 5, 67)
"""One lane, a part of a vector, several vectors and a part."""


def values(dtype, n, seed=0):
    """Small numbers of both signs, and for floats the special ones."""
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        x = rng.uniform(-3, 3, n)
        x[: n // 3] = np.resize([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, 88.9, -90.0], n // 3)
        return x.astype(np.float32).astype(dtype.numpy)
    if dtype is DType.BOOL:
        return rng.integers(0, 2, n).astype(bool)
    info = np.iinfo(dtype.numpy)
    return rng.integers(max(info.min, -9), 10, n).astype(dtype.numpy)


def tolerance(dtype):
    return {DType.F32: 3e-6, DType.BF16: 1e-2}.get(dtype, 0)


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16], ids=str)
@pytest.mark.parametrize("fn", FLOAT_UNARY)
def test_unary(fn, dtype, isa):
    for n in SIZES:
        b = Builder()
        x = b.input((n,), dtype)
        check(Program([x], [b.map(fn, x)]), [values(dtype, n)], rtol=tolerance(dtype), atol=1e-6)


@pytest.mark.parametrize(("fn", "exact", "units"), [("erf", math.erf, 2), ("erfc", math.erfc, 5)])
def test_units_in_the_last_place(fn, exact, units, isa):
    """Over sizes whose tenth is a normal number, of both signs, and at the steps between formulas."""
    sizes = np.concatenate([np.linspace(0, 9.1, 20001), np.geomspace(1e-36, 9.1, 10001), [0.5, 0.9, 3.99, 4.0]])
    x = np.concatenate([sizes, -sizes, np.nextafter(sizes, np.float32(0))]).astype(np.float32)
    want = np.array([exact(float(v)) for v in x])
    b = Builder()
    node = b.input(x.shape, DType.F32)
    got = compiled(Program([node], [b.map(fn, node)]), [x])[0][0]
    error = np.abs(got - want) / np.spacing(np.abs(want).astype(np.float32))
    assert error.max() <= units, f"{fn}({x[error.argmax()]!r}) is {got[error.argmax()]!r}"


def test_exp_over_all_of_its_range(isa):
    """Within a unit in the last place; 0 where the result would be denormal, and infinite beyond the largest number."""
    edges = np.float32([-87.33654, 88.72283, 1e-30, 0.0, -0.0, 0.34657359, -0.34657359])
    inside = np.concatenate([np.linspace(-87.33654, 88.72283, 200_001), np.geomspace(1e-20, 80, 5001), edges])
    inside = np.clip(inside.astype(np.float32), np.float32(-87.33654), np.float32(88.72283))
    nans = np.uint32([0x7FC00000, 0x7FC00001, 0xFFFFFFFF]).view(np.float32)
    outside = np.float32([88.72284, 89, 3e38, np.inf, -87.4, -104, -1e30, -np.inf])
    x = np.concatenate([inside, outside, nans])
    b = Builder()
    node = b.input(x.shape, DType.F32)
    got = compiled(Program([node], [b.map("exp", node)]), [x])[0][0]
    want = np.exp(inside.astype(np.float64))
    error = np.abs(got[: len(inside)] - want) / np.spacing(want.astype(np.float32))
    assert error.max() <= 1, f"exp({inside[error.argmax()]!r}) is {got[error.argmax()]!r}"
    np.testing.assert_array_equal(got[len(inside) :], np.float32([np.inf] * 4 + [0] * 4 + [np.nan] * 3))


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16], ids=str)
@pytest.mark.parametrize("fn", sorted(BINARY - BITS))
def test_binary(fn, dtype, isa):
    for n in SIZES:
        b = Builder()
        x, y = b.input((n,), dtype), b.input((n,), dtype)
        arrays = [values(dtype, n), values(dtype, n, 1)]
        check(Program([x, y], [b.map(fn, x, y)]), arrays, rtol=tolerance(dtype), atol=1e-6)


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_integers(dtype, isa):
    b = Builder()
    x, y = b.input((67,), dtype), b.input((67,), dtype)
    functions = sorted(BINARY - {"atan2"})
    check(
        Program([x, y], [*(b.map(fn, x, y) for fn in functions), b.map("invert", x), b.map("abs", x), b.map("neg", x)]),
        [values(dtype, 67), values(dtype, 67, 1)],
    )


@pytest.mark.parametrize("source", CASTS, ids=str)
def test_casts(source, isa):
    x = values(source, 67)
    if source.is_float:  # what an integer cannot hold is unspecified
        x = np.abs(np.nan_to_num(x.astype(np.float32), posinf=0, neginf=0)).astype(x.dtype)
    else:
        x = np.abs(x) if source.kind == "i" else x
    b = Builder()
    node = b.input((67,), source)
    check(Program([node], [b.cast(node, target) for target in CASTS if target is not source]), [x], rtol=0, atol=0)


def test_bfloat16_rounds_to_nearest_even(isa):
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0xFF800001, 0x7FC00000, 0xBF80C000], np.uint32)
    b = Builder()
    x = b.input((7,), DType.F32)
    check(Program([x], [b.cast(x, DType.BF16)]), [bits.view(np.float32)], rtol=0, atol=0)
