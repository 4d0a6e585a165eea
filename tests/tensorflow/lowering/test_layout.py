"""Padding and block ops against stock TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from harness import BF16, F32, arrays, check, evaluate, quick, refusal
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

raw = tf.raw_ops
I32 = np.dtype("int32")
CUBES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)


@quick
@given(st.data(), CUBES, st.sampled_from([F32, BF16, I32]))
def test_pad(data, shape, dtype):
    x = data.draw(arrays(dtype, shape))
    pairs = np.array([[data.draw(st.integers(0, 2)) for _ in range(2)] for _ in shape], np.int32)
    check(lambda x, p: raw.Pad(input=x, paddings=p), x, pairs)
    check(
        lambda x, p, v: raw.PadV2(input=x, paddings=p, constant_values=v),
        x, pairs.astype(np.int64), np.array(7, dtype),
    )  # fmt: skip


@quick
@given(st.data(), hnp.array_shapes(min_dims=1, max_dims=3, min_side=2, max_side=4))
def test_mirror_pad(data, shape):
    mode = data.draw(st.sampled_from(["REFLECT", "SYMMETRIC"]))
    most = [n - (mode == "REFLECT") for n in shape]
    x = data.draw(arrays(F32, shape))
    pairs = np.array([[data.draw(st.integers(0, m)) for _ in range(2)] for m in most], np.int32)
    check(lambda x, p: raw.MirrorPad(input=x, paddings=p, mode=mode), x, pairs)
    grown = np.arange(np.prod(shape + pairs.sum(1)), dtype=F32).reshape(shape + pairs.sum(1))
    check(lambda x, p: raw.MirrorPadGrad(input=x, paddings=p, mode=mode), grown, pairs)


def test_mirror_pad_refuses():
    fn = lambda x, p: raw.MirrorPad(input=x, paddings=p, mode="REFLECT")
    assert "no greater than 1" in refusal(fn, np.zeros(2, F32), np.int32([[2, 0]]))


@pytest.mark.parametrize("dtype", [F32, BF16, np.dtype("uint8")], ids=str)
def test_space_and_depth(dtype):
    """NCHW has no CPU kernel: it must be NHWC with the axes moved."""
    x = np.arange(2 * 4 * 6 * 8).reshape(2, 4, 6, 8).astype(dtype)
    for fn in (raw.SpaceToDepth, raw.DepthToSpace):
        check(lambda x, fn=fn: fn(input=x, block_size=2), x)
        want = fn(input=x, block_size=2).numpy().transpose(0, 3, 1, 2)
        for (got,) in evaluate(lambda x, fn=fn: fn(input=x, block_size=2, data_format="NCHW"), x.transpose(0, 3, 1, 2)):
            np.testing.assert_array_equal(got.astype(F32), want.astype(F32))


def test_space_and_batch():
    x = np.arange(2 * 5 * 4 * 3, dtype=F32).reshape(2, 5, 4, 3)
    blocks, pairs = np.int32([2, 3]), np.int32([[1, 0], [0, 2]])
    space_to_batch = lambda x, k, p: raw.SpaceToBatchND(input=x, block_shape=k, paddings=p)
    batch_to_space = lambda x, k, p: raw.BatchToSpaceND(input=x, block_shape=k, crops=p)
    check(space_to_batch, x, blocks, pairs)
    check(batch_to_space, space_to_batch(x, blocks, pairs).numpy(), blocks, pairs)
