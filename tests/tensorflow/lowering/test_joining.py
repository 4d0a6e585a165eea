"""Tensors joined and split along an axis, against stock TensorFlow."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import (
    any_type,
    arrays,
    check,
    index_type,
    quick,
    tensors,
)
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

raw = tf.raw_ops


@quick
@given(st.data(), hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3), any_type)
def test_concat_and_pack(data, shape, dtype):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    parts = []
    for _ in range(data.draw(st.integers(2, 4))):
        sizes = list(shape)
        sizes[axis] = data.draw(st.integers(0, 3))
        parts.append(data.draw(arrays(dtype, tuple(sizes), low=0)))
    check(lambda a, *v: raw.ConcatV2(values=list(v), axis=a), data.draw(index_type)(axis), *parts)
    check(lambda a, *v: raw.Concat(concat_dim=a, values=list(v)), np.int32(axis), *parts)
    x = data.draw(arrays(dtype, shape, low=0))
    at = data.draw(st.integers(-len(shape) - 1, len(shape)))
    check(lambda *v: raw.Pack(values=list(v), axis=at), *[x] * data.draw(st.integers(1, 3)))


@quick
@given(st.data(), hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3))
def test_splits(data, shape):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    num = shape[axis]
    x = data.draw(tensors(shape))
    check(lambda x: raw.Unpack(value=x, num=num, axis=axis), x)
    check(lambda d, x: raw.Split(axis=d, value=x, num_split=num), np.int32(axis), x)
    first = data.draw(st.integers(0, num))
    sizes = np.array([first, -1], np.int64)
    check(lambda x, s, d: raw.SplitV(value=x, size_splits=s, axis=d, num_split=2), x, sizes, np.int32(axis))
