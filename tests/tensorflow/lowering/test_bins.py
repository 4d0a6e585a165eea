"""Counting ops against stock TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from harness import F32, arrays, check, quick, refusal
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

raw = tf.raw_ops
I32, I64 = np.dtype("int32"), np.dtype("int64")
ROWS = hnp.array_shapes(min_dims=1, max_dims=2, min_side=1, max_side=5)


@quick
@given(st.data(), ROWS, st.sampled_from([I32, I64]), st.sampled_from([F32, I32, I64]), st.booleans())
def test_bincount(data, shape, index, dtype, binary):
    numbers = data.draw(arrays(index, shape, low=0, high=6))
    size = np.array(data.draw(st.integers(1, 8)), index)
    for weights in (data.draw(arrays(dtype, shape)), np.zeros(0, dtype)):
        check(
            lambda x, s, w: raw.DenseBincount(input=x, size=s, weights=w, binary_output=binary), numbers, size, weights
        )
        if index == I32:
            check(lambda x, s, w: raw.Bincount(arr=x, size=s, weights=w), numbers, size, weights)


def test_bincount_refuses_weights_of_another_shape():
    fn = lambda x, s, w: raw.DenseBincount(input=x, size=s, weights=w)
    assert "weights" in refusal(fn, np.zeros(3, I32), np.array(2, I32), np.zeros(2, F32))


@quick
@given(st.data(), st.lists(st.floats(-3, 3, width=32), max_size=5).map(sorted), st.sampled_from([F32, I32, I64]))
def test_bucketize(data, boundaries, dtype):
    x = data.draw(arrays(dtype, special=True)) if dtype == F32 else data.draw(arrays(dtype))
    check(lambda x: raw.Bucketize(input=x, boundaries=boundaries), x)


@pytest.mark.parametrize("op", ["LowerBound", "UpperBound"])
def test_bounds(op):
    @quick
    @given(st.data(), st.integers(1, 3), st.integers(0, 5), st.integers(1, 4), st.sampled_from([F32, I32, I64]))
    @example(None, 1, 3, 4, F32)
    def compare(data, rows, n, m, dtype):
        if data is None:
            line, values = np.array([[-1, 0, 2]], dtype), np.array([[np.nan, -0.0, np.inf, 2]], dtype)
        else:
            line = np.sort(data.draw(arrays(dtype, (rows, n))), axis=1)
            values = data.draw(arrays(dtype, (rows, m)))
        for out in (tf.int32, tf.int64):
            check(lambda s, v, out=out: getattr(raw, op)(sorted_inputs=s, values=v, out_type=out), line, values)

    compare()
