"""Gathers, scatters, stitches and top-k against stock TensorFlow."""

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
I32, I64 = np.dtype("int32"), np.dtype("int64")
TYPES = st.sampled_from([F32, BF16, I32, np.dtype("bool")])
INDICES = st.sampled_from([I32, I64])
CUBES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3)


@quick
@given(st.data(), CUBES, SHAPES, TYPES, INDICES)
def test_gather(data, shape, at, dtype, index):
    x = data.draw(arrays(dtype, shape, low=0))
    axis = data.draw(st.integers(0, len(shape) - 1))
    indices = data.draw(arrays(index, at, low=0, high=shape[axis] - 1))
    check(lambda x, i, a: raw.GatherV2(params=x, indices=i, axis=a), x, indices, np.int32(axis))
    if axis == 0:
        check(lambda x, i: raw.Gather(params=x, indices=i), x, indices)


@quick
@given(st.data(), hnp.array_shapes(min_dims=2, max_dims=4, min_side=1, max_side=3), INDICES)
def test_gather_in_batches(data, shape, index):
    batch = data.draw(st.integers(1, len(shape) - 1))
    axis = data.draw(st.integers(batch, len(shape) - 1))
    x = data.draw(arrays(F32, shape))
    at = shape[:batch] + data.draw(SHAPES)
    indices = data.draw(arrays(index, at, low=0, high=shape[axis] - 1))
    check(
        lambda x, i, a: raw.GatherV2(params=x, indices=i, axis=a, batch_dims=batch),
        x, indices, np.int32(axis - data.draw(st.sampled_from([0, len(shape)]))),
    )  # fmt: skip


def test_gather_in_more_batches_than_the_indices_can_count():
    x = np.arange(80000, dtype=F32).reshape(40000, 2)
    at = (np.arange(40000) % 2).astype(np.int16)
    check(lambda x, i, a: raw.GatherV2(params=x, indices=i, axis=a, batch_dims=1), x, at, np.int32(1))


def test_gather_out_of_range_is_zero():
    x = np.arange(1, 7, dtype=F32).reshape(3, 2)
    fn = lambda x, i, a: raw.GatherV2(params=x, indices=i, axis=a)
    for (got,) in evaluate(fn, x, np.int32([0, 3, -1]), np.int32(0)):
        np.testing.assert_array_equal(got, [[1, 2], [0, 0], [0, 0]])


@st.composite
def places(draw, shape, unique=False):
    """Indices for GatherNd and its relatives into a tensor of `shape`: [n, depth]."""
    depth = draw(st.integers(1, len(shape)))
    cell = st.tuples(*(st.integers(0, n - 1) for n in shape[:depth]))
    cells = draw(st.lists(cell, max_size=5, unique=unique))
    return np.array(cells, draw(INDICES)).reshape(len(cells), depth)


@quick
@given(st.data(), CUBES, TYPES)
def test_gather_nd(data, shape, dtype):
    x = data.draw(arrays(dtype, shape, low=0))
    check(lambda x, i: raw.GatherNd(params=x, indices=i), x, data.draw(places(shape)))
    check(lambda x, i: raw.GatherNd(params=x, indices=i), x, np.zeros((3, 0), np.int32))


@quick
@given(st.data(), CUBES, st.sampled_from([F32, BF16, np.dtype("int32")]))
def test_scatter_nd(data, shape, dtype):
    indices = data.draw(places(shape))
    updates = data.draw(arrays(dtype, (len(indices), *shape[indices.shape[1] :])))
    wanted = np.array(shape, indices.dtype)
    agrees = check_rounded if dtype == BF16 else check
    agrees(lambda i, u, s: raw.ScatterNd(indices=i, updates=u, shape=s), indices, updates, wanted)


@pytest.mark.parametrize("kind", ["Update", "Add", "Sub", "Min", "Max"])
def test_tensor_scatter(kind):
    fn = getattr(raw, f"TensorScatter{kind}")

    @quick
    @given(st.data(), CUBES, st.sampled_from([F32, np.dtype("int32")]))
    def compare(data, shape, dtype):
        indices = data.draw(places(shape, unique=kind == "Update"))
        updates = data.draw(arrays(dtype, (len(indices), *shape[indices.shape[1] :])))
        x = data.draw(arrays(dtype, shape))
        check(lambda x, i, u: fn(tensor=x, indices=i, updates=u), x, indices, updates)

    compare()


@pytest.mark.parametrize("kind", ["Min", "Max"])
def test_scatters_of_extremes_pass_over_nan_among_the_updates(kind):
    x = np.array([[1, np.nan], [2, 3], [4, 5]], F32)
    updates = np.array([[np.nan, 1], [np.nan, np.nan], [3, np.nan]], F32)
    fn = getattr(raw, f"TensorScatter{kind}")
    check(lambda x, i, u: fn(tensor=x, indices=i, updates=u), x, np.array([[0], [1], [1]]), updates)


def test_scatters_refuse():
    call = lambda x, i, u: raw.TensorScatterAdd(tensor=x, indices=i, updates=u)
    x = np.zeros((2, 2), F32)
    assert "updates must have shape [1, 2]" in refusal(call, x, np.zeros((1, 1), np.int32), x)
    assert "no axis" in refusal(call, x, np.zeros((3, 0), np.int32), np.zeros((3, 2, 2), F32))
    assert "indices address 3 axes" in refusal(call, x, np.zeros((1, 3), np.int32), np.zeros(1, F32))


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_invert_permutation(index):
    check(lambda x: raw.InvertPermutation(x=x), np.array([3, 0, 2, 1], index))


def test_dynamic_stitch():
    for fn in (raw.DynamicStitch, raw.ParallelDynamicStitch):
        check(
            lambda i, j, x, y, fn=fn: fn(indices=[i, j], data=[x, y]),
            np.int32([[4, 1], [5, 2]]), np.int32([0, 3]),
            np.arange(12, dtype=F32).reshape(2, 2, 3), np.arange(6, dtype=F32).reshape(2, 3),
        )  # fmt: skip
    check(
        lambda i, j, x, y: raw.DynamicStitch(indices=[i, j], data=[x, y]),
        np.int32([0, 1, 2, 3]), np.int32([1, 2]), np.int32([10, 11, 12, 13]), np.int32([7, 8]),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [F32, BF16, I32], ids=str)
def test_top_k(dtype):
    @quick
    @given(st.data(), hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5))
    def compare(data, shape):
        x = data.draw(arrays(dtype, shape, low=-2, high=2))
        k = data.draw(st.integers(0, shape[-1]))
        check(lambda x, k: raw.TopKV2(input=x, k=k), x, np.int32(k))

    compare()


@pytest.mark.parametrize("dtype", [F32, BF16, np.float16, I32, np.uint8, np.uint32, np.int64], ids=str)
@pytest.mark.parametrize("k", [1, 2, 5, 12, 17])
def test_few_of_long_rows(dtype, k):
    """Many equal ones, infinities, zeros of both signs."""
    x = np.random.default_rng(k).integers(0, 30, (7, 200)).astype(dtype)
    if np.dtype(dtype).kind in "fV":
        x[0], x[1, 1:], x[2, ::3], x[3, ::2] = -np.inf, -np.inf, np.inf, -0.0
        x[4] -= np.asarray(20, dtype)
    elif dtype == np.uint32:
        x[0, 5:90:7] = 2**32 - 1
    check(lambda x, k: raw.TopKV2(input=x, k=k), x, np.int32(k))


@quick
@given(st.data(), st.integers(1, 4), st.integers(1, 6), st.integers(0, 7), INDICES)
def test_in_top_k(data, batch, classes, k, index):
    x = data.draw(arrays(F32, (batch, classes), special=True))
    targets = data.draw(arrays(index, (batch,), low=-1, high=classes))
    check(lambda x, t: raw.InTopK(predictions=x, targets=t, k=k), x, targets)
    check(lambda x, t, k: raw.InTopKV2(predictions=x, targets=t, k=k), x, targets, index.type(k))


@pytest.mark.parametrize("reverse", [False, True])
def test_nth_element(reverse):
    @quick
    @given(
        st.data(),
        hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5),
        st.sampled_from([F32, BF16, np.dtype("int32")]),
    )
    def compare(data, shape, dtype):
        x = data.draw(arrays(dtype, shape))
        n = np.int32(data.draw(st.integers(0, shape[-1] - 1)))
        check(lambda x, n: raw.NthElement(input=x, n=n, reverse=reverse), x, n)

    compare()


@quick
@given(st.data(), hnp.array_shapes(min_dims=2, max_dims=4, min_side=1, max_side=4), TYPES)
def test_reverse_sequence(data, shape, dtype):
    sequence, batch = data.draw(st.permutations(range(len(shape))))[:2]
    lengths = data.draw(arrays(np.dtype("int64"), shape[batch], low=0, high=shape[sequence]))
    x = data.draw(arrays(dtype, shape))
    check(lambda x, n: raw.ReverseSequence(input=x, seq_lengths=n, seq_dim=sequence, batch_dim=batch), x, lengths)
