"""8-bit floats: every code read, float32 rounded to the nearest one. The oracle is ml_dtypes; what is above the largest
number of float8_e4m3fn becomes that number, where ml_dtypes makes NaN. And float16, which is converted alike where the
CPU has no instruction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Program
from tests.compiler.running import MATMUL, check, compiled

FORMATS = [DType.F8E4M3, DType.F8E5M2]
both = pytest.mark.parametrize("dtype", FORMATS, ids=str)


def _converted(x: np.ndarray, source: DType, out: DType) -> np.ndarray:
    b = Builder()
    return compiled(Program([node := b.input(x.shape, source)], [b.cast(node, out)]), [x])[0][0]


def _numbers(dtype: DType) -> np.ndarray:
    """Every number of the format, what lies halfway between two neighbours and beside that, far away and near zero."""
    codes = np.arange(256, dtype=np.uint8).view(dtype.numpy).astype(np.float32)
    finite = np.unique(codes[np.isfinite(codes)])
    halves = (finite[1:] + finite[:-1]) / 2
    ends = np.array([0.0, -0.0, 1e-45, -1e-40, 3e38, np.inf, -np.inf, np.nan, 449, 464, 465, 480, 61439, 61440], "f")
    beside = [np.nextafter(halves, np.float32(to)) for to in (np.inf, -np.inf)]
    random = np.random.default_rng(0).integers(0, 2**32, 100_000, np.uint32).view(np.float32)
    return np.concatenate([codes, halves, *beside, ends, random]).astype(np.float32)


@both
@pytest.mark.parametrize("lanes", ["vectors", "scalars"])
def test_every_code_and_every_tie(dtype: DType, lanes: str) -> None:
    codes = np.arange(256, dtype=np.uint8).view(dtype.numpy)
    numbers = _numbers(dtype)
    with np.errstate(all="ignore"):
        wide = codes.astype(np.float32)
        limit = 448 if dtype is DType.F8E4M3 else np.inf
        short = np.clip(numbers, -limit, limit).astype(dtype.numpy)
    if lanes == "scalars":
        codes, wide, numbers, short = codes[:3], wide[:3], numbers[-3:], short[-3:]
    np.testing.assert_array_equal(_converted(codes, dtype, DType.F32), wide)
    got = _converted(numbers, DType.F32, dtype)
    nan = np.isnan(numbers)
    np.testing.assert_array_equal(got.view(np.uint8)[~nan], short.view(np.uint8)[~nan])
    assert np.isnan(got[nan].astype(np.float32)).all()


@pytest.mark.usefixtures("isa")
def test_every_code_and_every_tie_of_float16() -> None:
    """Also where no instruction converts it. The oracle is NumPy."""
    codes = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        wide = codes.astype(np.float32)
        finite = np.unique(wide[np.isfinite(wide)])
        halves = (finite[1:] + finite[:-1]) / 2
        beside = [np.nextafter(halves, np.float32(to)) for to in (np.inf, -np.inf)]
        ends = np.array([1e-45, -1e-40, 65519, 65520, -65520, 3e38, np.inf, -np.inf, np.nan], "f")
        random = np.random.default_rng(0).integers(0, 2**32, 100_000, np.uint32).view(np.float32)
        numbers = np.concatenate([wide, halves, *beside, ends, random])
        short = numbers.astype(np.float16)
    for some in (slice(None), slice(0, 3), slice(1000, 1003)):  # the last two as scalars
        for x, want in ((codes, wide), (numbers, short)):
            source, out = (DType.F16, DType.F32) if x is codes else (DType.F32, DType.F16)
            got = _converted(x[some], source, out)
            np.testing.assert_array_equal(got, want[some])
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want[some]))


@both
@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("other", [DType.BF16, DType.F16, DType.I32, DType.U8, DType.BOOL], ids=str)
def test_casts_to_and_from_other_types(dtype: DType, other: DType) -> None:
    b = Builder()
    x, y = b.input((300,), dtype), b.input((300,), other)
    numbers = np.random.default_rng(1).integers(0, 100, 300)
    check(
        Program([x, y], [b.cast(x, other), b.cast(y, dtype)]),
        [numbers.astype(dtype.numpy), numbers.astype(other.numpy)],
    )


@both
def test_a_value_rounded_on_its_way_is_seen_rounded(dtype: DType) -> None:
    """Within one kernel, float32 keeps no digits that the format lacks."""
    b = Builder()
    x = b.input((64, 33), DType.F32)
    out = b.cast(b.map("stored", b.cast(b.map("mul", x, x), dtype)), DType.F32)
    check(Program([x], [out]), [np.random.default_rng(2).standard_normal((64, 33)).astype(np.float32)], rtol=0, atol=0)


@both
@pytest.mark.parametrize("shapes", [(5, 7, 9), (64, 256, 128)], ids=str)
@pytest.mark.parametrize("wide", [DType.BF16, DType.F32], ids=str)
def test_products(dtype: DType, shapes: tuple[int, int, int], wide: DType) -> None:
    m, k, n = shapes
    b = Builder()
    x, y = b.input((m, k), dtype), b.input((k, n), dtype)
    out = b.contract(b.cast(x, wide), b.cast(y, wide), MATMUL, DType.F32)
    arrays = [np.random.default_rng(3).standard_normal(s).astype(dtype.numpy) for s in ((m, k), (k, n))]
    got, _ = compiled(Program([x, y], [out]), arrays)
    want = arrays[0].astype("d") @ arrays[1].astype("d")
    np.testing.assert_allclose(got[0], want, rtol=1e-5, atol=1e-4)
    short = Program([x, y], [b.contract(x, y, MATMUL, DType.F32)])  # in 8 bits, as a card's arrays take them
    check(short, arrays, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(compiled(short, arrays)[0][0], want, rtol=1e-5, atol=1e-4)


def test_codes_beyond_a_chips_largest_number_are_nan_in_products() -> None:
    b = Builder()
    x, y = b.input((2, 3), DType.F8E4M3), b.input((3, 4), DType.BF16)
    spec = replace(MATMUL, largest=240.0)
    arrays = [np.array([[1, 240, -240], [1, 256, 0]], x.dtype.numpy), np.ones((3, 4), y.dtype.numpy)]
    program = Program([x, y], [b.contract(x, y, spec, DType.F32)])
    check(program, arrays)
    got = compiled(program, arrays)[0][0]
    assert (got[0] == 1).all() and np.isnan(got[1]).all()


@both
def test_moved_and_chosen_without_change(dtype: DType) -> None:
    b = Builder()
    x, c = b.input((6, 8), dtype), b.input((6, 8), DType.BOOL)
    arrays = [np.arange(48, dtype=np.uint8).reshape(6, 8).view(dtype.numpy), np.arange(48).reshape(6, 8) % 2 == 0]
    outs = [b.permute(x, (1, 0)), b.select(c, x, b.map("neg", x)), b.map("bitcast", x, dtype=DType.U8)]
    check(Program([x, c], outs), arrays, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [*FORMATS, DType.I8, DType.U8], ids=str)
def test_a_cast_operand_is_read_in_8_bits(dtype: DType) -> None:
    """Also through views of the cast: no kernel makes a weight wider, in memory."""
    b = Builder()
    x, w = b.input((3, 40), DType.BF16), b.input((50, 40), dtype)
    turned = b.permute(b.cast(w, DType.BF16), (1, 0))
    program = Program([x, w], [b.contract(x, turned, MATMUL, DType.F32)])
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal((3, 40)).astype(x.dtype.numpy), rng.integers(0, 100, (50, 40)).astype(dtype.numpy)]
    recipe = check(program, arrays, rtol=1e-5, atol=1e-3)
    assert len(recipe.kernels) == 1


def test_operands_far_from_one_do_not_overflow_where_the_other_has_8_bits() -> None:
    b = Builder()
    x, w = b.input((1, 64), DType.F32), b.input((32, 64), DType.F8E4M3)
    out = b.contract(x, w, replace(MATMUL, b=(2, 1)), DType.F32)
    small = np.full((32, 64), 2.0**-9).astype(w.dtype.numpy)
    check(Program([x, w], [out]), [np.full((1, 64), 2.0**127, np.float32), small])


@both
def test_casts_keep_the_sign_of_nan(dtype: DType) -> None:
    codes = np.array([0x7F, 0xFF] * 20, np.uint8).view(dtype.numpy)
    wide = _converted(codes, dtype, DType.F32)
    assert np.isnan(wide).all() and (np.signbit(wide) == np.tile([False, True], 20)).all()
