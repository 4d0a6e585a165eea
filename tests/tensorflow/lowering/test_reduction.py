"""Reductions, running sums and norms against stock TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from harness import BF16, F32, arrays, check, evaluate, quick, refusal
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from rounding import check_rounded

raw = tf.raw_ops
CUBES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
TYPES = [F32, BF16, np.dtype("int32"), np.dtype("int64")]


@st.composite
def axes_of(draw, shape):
    chosen = draw(st.lists(st.integers(0, len(shape) - 1), unique=True)) if shape else []
    index = draw(st.sampled_from([np.int32, np.int64]))
    return np.array([a - draw(st.sampled_from([0, len(shape)])) for a in chosen], index)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", ["Sum", "Prod", "Max", "Min", "Mean"])
def test_reductions(name, dtype):
    fn = getattr(raw, name)

    @quick
    @given(st.data(), CUBES, st.booleans())
    def compare(data, shape, keep):
        if dtype.kind == "i" and name == "Mean" and 0 in shape:
            return  # TensorFlow divides integers by zero
        x = data.draw(arrays(dtype, shape, special=name in ("Sum",)))
        agrees = check_rounded if dtype == BF16 else check
        agrees(lambda x, a: fn(input=x, axis=a, keep_dims=keep), x, data.draw(axes_of(shape)))

    compare()


@pytest.mark.parametrize("name", ["Max", "Min"])
def test_extremes_let_nan_through(name):
    x = np.array([[1, np.nan, 3], [1, np.inf, -np.inf]], F32)
    check(lambda x, a: getattr(raw, name)(input=x, axis=a), x, np.array([1], np.int32))


@quick
@given(st.data(), CUBES, st.booleans())
def test_all_and_any(data, shape, keep):
    x, axes = data.draw(arrays(np.bool_, shape)), data.draw(axes_of(shape))
    check(lambda x, a: raw.All(input=x, axis=a, keep_dims=keep), x, axes)
    check(lambda x, a: raw.Any(input=x, axis=a, keep_dims=keep), x, axes)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_means_of_integers_whose_sum_is_too_large(dtype):
    most = np.iinfo(dtype).max
    for x in (np.full((4, 256), most - 3, dtype), np.array([[most, most - 1, 1], [2, 0, np.iinfo(dtype).min]], dtype)):
        for axis in (0, 1):
            check(lambda x, a: raw.Mean(input=x, axis=a), x, np.int32([axis]))


def test_long_sums_keep_their_precision():
    x = np.full((3, 70000), 0.1, F32)
    check(lambda x, a: raw.Sum(input=x, axis=a), x, np.int32([1]), rtol=1e-5)
    ones = np.full(3000, 1, BF16)
    for (got,) in evaluate(lambda x, a: raw.Sum(input=x, axis=a), ones, np.int32([0])):
        assert got == BF16.type(3000)


def test_reductions_refuse():
    for axes, message in (([2], "axis 2"), ([0, -2], "twice")):
        assert message in refusal(lambda x, a: raw.Sum(input=x, axis=a), np.zeros((2, 2), F32), np.int32(axes))
    assert "empty" in refusal(lambda x, a: raw.ArgMax(input=x, dimension=a), np.zeros((2, 0), F32), np.int32(1))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
def test_positions_of_extremes(name, dtype):
    @quick
    @given(st.data(), hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5))
    def compare(data, shape):
        x = data.draw(arrays(dtype, shape, special=True))
        axis, out = (
            data.draw(st.integers(-len(shape), len(shape) - 1)),
            data.draw(st.sampled_from([tf.int32, tf.int64])),
        )
        check(lambda x, a: getattr(raw, name)(input=x, dimension=a, output_type=out), x, np.int32(axis))

    compare()


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
@quick
@given(st.sampled_from([(9,), (64,), (1000,), (40000,), (300, 5), (5, 300)]), st.integers(0, 99),
       st.sampled_from([0.01, 0.5, 0.99, 1]), st.sampled_from([0, 0.5, 1]))  # fmt: skip
def test_nan_is_no_extreme(dtype, name, shape, seed, nans, infinities):
    """Wherever it stands; a line of NaN, and one of the farthest infinity, has its extreme at 0."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=shape)
    x[generator.uniform(size=shape) < infinities] = generator.choice([np.inf, -np.inf])
    x[generator.uniform(size=shape) < nans] = np.nan
    for axis in range(len(shape)):
        check(lambda x, a: getattr(raw, name)(input=x, dimension=a), x.astype(dtype), np.int32(axis))


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_norms(dtype):
    @quick
    @given(st.data(), CUBES)
    def compare(data, shape):
        x = data.draw(arrays(dtype, shape))
        agrees = check_rounded if dtype == BF16 else check
        agrees(lambda x: raw.L2Loss(t=x), x)
        agrees(lambda x, a: raw.EuclideanNorm(input=x, axis=a, keep_dims=True), x, data.draw(axes_of(shape)))

    compare()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", ["Cumsum", "Cumprod"])
def test_running(name, dtype):
    @quick
    @given(st.data(), hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5))
    def compare(data, shape):
        x = data.draw(arrays(dtype, shape))
        exclusive, reverse = data.draw(st.booleans()), data.draw(st.booleans())
        axis = np.int32(data.draw(st.integers(-len(shape), len(shape) - 1)))
        fn = getattr(raw, name)
        agrees = check_rounded if dtype == BF16 else check
        agrees(lambda x, a: fn(x=x, axis=a, exclusive=exclusive, reverse=reverse), x, axis)

    compare()


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_cumulative_log_sum_exp(dtype):
    """Numbers further apart than exp can tell: each result is relative to what it sums."""

    @quick
    @given(st.data(), hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5))
    def compare(data, shape):
        x = data.draw(arrays(dtype, shape, low=-90, high=90))
        exclusive, reverse = data.draw(st.booleans()), data.draw(st.booleans())
        axis = np.int32(data.draw(st.integers(-len(shape), len(shape) - 1)))
        agrees = check_rounded if dtype == BF16 else check
        agrees(lambda x, a: raw.CumulativeLogsumexp(x=x, axis=a, exclusive=exclusive, reverse=reverse), x, axis)

    compare()


@quick
@given(arrays(F32, CUBES, special=True))
def test_l2_loss(x):
    check(lambda x: raw.L2Loss(t=x), x)
    check_rounded(lambda x: raw.L2Loss(t=x), x.astype(BF16))
