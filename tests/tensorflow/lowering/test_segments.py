"""Sums by segment, of rows and of picked rows, against stock TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from harness import BF16, F32, arrays, check, compare, evaluate, quick, reference, refusal
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

raw = tf.raw_ops
I32, I64 = np.dtype("int32"), np.dtype("int64")
INDICES = st.sampled_from([I32, I64])


@pytest.mark.parametrize("kind", ["Sum", "Prod", "Max", "Min"])
def test_unsorted_segments(kind):
    fn = getattr(raw, f"UnsortedSegment{kind}")

    @quick
    @given(st.data(), hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4), st.sampled_from([F32, I32]))
    def compared(data, shape, dtype):
        ids = data.draw(arrays(data.draw(INDICES), shape[: data.draw(st.integers(1, len(shape)))], low=-1, high=2))
        x = data.draw(arrays(dtype, shape))
        check(lambda x, i, n: fn(data=x, segment_ids=i, num_segments=n), x, ids, np.int32(3))

    compared()


def test_an_id_out_of_range_is_left_out():
    """TensorFlow refuses one that is too large."""
    fn = lambda x, i, n: raw.UnsortedSegmentSum(data=x, segment_ids=i, num_segments=n)
    for (got,) in evaluate(fn, np.ones(4, F32), np.int32([0, 2, -1, 0]), np.int32(2)):
        np.testing.assert_array_equal(got, [2, 0])


def test_segment_sum():
    x = np.arange(10, dtype=F32).reshape(5, 2)
    for ids in ([0, 0, 1, 3, 3], [0, 1, 2, 3, 4]):
        check(lambda x, i: raw.SegmentSum(data=x, segment_ids=i), x, np.int32(ids))
    unsorted = np.int32([0, 2, 1, 3, 3])
    assert "not increasing" in refusal(lambda x, i: raw.SegmentSum(data=x, segment_ids=i), x, unsorted)
    negative = np.int32([-1, 0, 0, 1, 1])
    assert "non-negative" in refusal(lambda x, i: raw.SegmentSum(data=x, segment_ids=i), x, negative)


@quick
@given(st.data(), hnp.array_shapes(min_dims=1, max_dims=3, max_side=4), INDICES, st.sampled_from([F32, I32]))
def test_segment_sum_of_a_given_number(data, shape, index, dtype):
    """TensorFlow has a kernel for XLA alone: it is a sum of segments in any order whose ids happen to be sorted."""
    ids = np.sort(data.draw(arrays(index, shape[:1], low=0, high=5)))
    x, n = data.draw(arrays(dtype, shape)), np.int32(data.draw(st.integers(int(ids.max()) + 1, 8)))
    (want,) = reference(lambda x, i, n: raw.UnsortedSegmentSum(data=x, segment_ids=i, num_segments=n), x, ids, n)
    for (got,) in evaluate(lambda x, i, n: raw.SegmentSumV2(data=x, segment_ids=i, num_segments=n), x, ids, n):
        compare(got, want)


@pytest.mark.parametrize("kind", ["Sum", "Mean", "SqrtN"])
def test_sparse_segments(kind):
    @quick
    @given(st.data(), st.integers(1, 5), st.integers(1, 3), st.integers(1, 6), INDICES)
    def compared(data, rows, width, count, index):
        x = data.draw(arrays(F32, (rows, width)))
        indices = data.draw(arrays(index, (count,), low=0, high=rows - 1))
        ids = np.sort(data.draw(arrays(I32, (count,), low=0, high=3)))
        fn = getattr(raw, f"SparseSegment{kind}")
        check(lambda x, i, s: fn(data=x, indices=i, segment_ids=s), x, indices, ids, atol=1e-5)
        fn = getattr(raw, f"SparseSegment{kind}WithNumSegments")
        check(lambda x, i, s, n: fn(data=x, indices=i, segment_ids=s, num_segments=n), x, indices, ids, np.int32(5),
              atol=1e-5)  # fmt: skip
        dy = data.draw(arrays(F32, (4, width)))
        fn = getattr(raw, f"SparseSegment{kind}Grad")
        check(lambda dy, i, s, n: fn(grad=dy, indices=i, segment_ids=s, output_dim0=n), dy, indices, ids,
              np.int32(rows), atol=1e-5)  # fmt: skip

    compared()


def test_short_sums_are_rounded_once():
    x = np.ones((300, 2), BF16)
    ids, indices = np.zeros(300, np.int32), np.arange(300, dtype=np.int32)

    def fn(x, i, s, n):
        return raw.SparseSegmentSumWithNumSegments(data=x, indices=i, segment_ids=s, num_segments=n)

    for outputs in evaluate(fn, x, indices, ids, np.int32(1)):
        assert (outputs[0] == BF16.type(300)).all()


@pytest.mark.parametrize("kind", ["Prod", "Max", "Min", "Mean"])
def test_sorted_segments(kind):
    fn = getattr(raw, f"Segment{kind}")

    @quick
    @given(st.data(), INDICES, st.sampled_from([F32, I32] if kind != "Mean" else [F32]))
    def compared(data, index, dtype):
        ids = np.sort(data.draw(arrays(index, data.draw(st.integers(1, 6)), low=0, high=4)))
        x = data.draw(arrays(dtype, (len(ids), 3)))
        check(lambda x, i: fn(data=x, segment_ids=i), x, ids)

    compared()


@quick
@given(st.data(), st.booleans(), st.booleans())
def test_sparse_times_dense(data, adjoint_a, adjoint_b):
    rows, columns, n = (data.draw(st.integers(1, 4)) for _ in range(3))
    count = data.draw(st.integers(0, 6))
    places = np.stack([data.draw(arrays(I64, count, low=0, high=k - 1)) for k in (rows, columns)], axis=1)
    values = data.draw(arrays(F32, count))
    inner = rows if adjoint_a else columns
    dense = data.draw(arrays(F32, (n, inner) if adjoint_b else (inner, n)))
    check(
        lambda i, v, s, d: raw.SparseTensorDenseMatMul(
            a_indices=i, a_values=v, a_shape=s, b=d, adjoint_a=adjoint_a, adjoint_b=adjoint_b
        ),
        places, values, np.array([rows, columns], np.int64), dense, atol=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["Max", "Min"])
def test_a_segment_of_infinities(kind):
    x = np.array([-np.inf, np.inf, -np.inf, -np.inf, np.inf, np.inf, 1], F32)
    check(lambda x, i: getattr(raw, f"Segment{kind}")(data=x, segment_ids=i), x, np.array([0, 0, 1, 1, 3, 3, 4], I32))
