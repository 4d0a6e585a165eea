"""Ops that make and reorder tensors, against stock TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from harness import (
    BACKENDS,
    BF16,
    F32,
    SHAPES,
    TYPES,
    any_type,
    arrays,
    check,
    evaluate,
    index_type,
    lower_op,
    make_cluster,
    quick,
    reference,
    refusal,
    tensors,
)
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from habana_tf.cluster.lower import lower
from habana_tf.ir import extent as ext
from habana_tf.ir.interpreter import bind, run

raw = tf.raw_ops


@quick
@given(tensors())
def test_identities(x):
    for fn in (raw.Identity, raw.StopGradient, raw.PreventGradient, raw.Snapshot):
        check(lambda x, fn=fn: fn(input=x), x)
    check(lambda x: raw.IdentityN(input=[x, x]), x)
    check(lambda x: raw.EnsureShape(input=x, shape=[None, *x.shape[1:]] if x.shape.rank else []), x)


def test_ensure_shape_refuses():
    fn = lambda x: raw.EnsureShape(input=x, shape=[None, 3])
    assert "expected shape [-1, 3]" in refusal(fn, np.zeros((2, 2), F32))


@quick
@given(tensors(), index_type)
def test_shapes_as_values(x, index):
    out = tf.as_dtype(index)
    check(lambda x: raw.Shape(input=x, out_type=out), x)
    check(lambda x: raw.ShapeN(input=[x, x], out_type=out), x)
    check(lambda x: raw.Size(input=x, out_type=out), x)
    check(lambda x: raw.Rank(input=x), x)
    for fn in (raw.ZerosLike, raw.OnesLike):
        check(lambda x, fn=fn: fn(x=x), x)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_constants(dtype):
    for value in (np.array(1, dtype), np.array([[1, 0, 1]], dtype), np.zeros((0, 2), dtype), np.ones((2, 2), dtype)):
        check(lambda x, v=value: [tf.constant(v), raw.Identity(input=x)], np.zeros(1, F32))


@quick
@given(SHAPES, any_type, index_type)
def test_fill(shape, dtype, index):
    check(lambda d, v: raw.Fill(dims=d, value=v), np.array(shape, index), np.ones((), dtype))
    empty = lambda d: raw.Empty(shape=d, dtype=tf.as_dtype(dtype), init=True)
    for (got,) in evaluate(empty, np.array(shape, np.int32)):
        assert got.shape == shape and got.dtype == dtype


def test_an_eager_fill_takes_a_value_of_one_axis():
    """As TensorFlow's kernel does; in a graph its shape function refuses it."""
    given = [np.array([2, 3], np.int32), np.array([7], F32)]
    (want,) = reference(lambda d, v: raw.Fill(dims=d, value=v), *given)
    program, arrays = lower_op(lambda d, v: raw.Fill(dims=d, value=v), *given, shaped=False)
    for backend in BACKENDS:
        np.testing.assert_array_equal(backend(program, arrays, [])[0], want)


def test_fill_lowers_over_a_symbolic_count():
    """Eager fills share one recipe over all shapes."""
    cluster, _ = make_cluster(lambda v, d: raw.Fill(dims=d, value=v), [np.float32(3), np.int32([2])])
    program = lower(cluster, [(), (1,)], [None, np.array([ext.sym(0)], dtype=object)])
    got = run(bind(program, [5]), [np.array(3, F32), np.array([5], np.int32)])[0]
    np.testing.assert_array_equal(got, [3] * 5)


@pytest.mark.parametrize(
    "start,limit,delta,dtype",
    [(0, 5, 1, "int32"), (3, 18, 4, "int64"), (5, -4, -3, "int32"), (2, 2, 1, "int32"), (0, 1, 0.3, "float32"),
     (1, -1, -0.25, "float32")],
)  # fmt: skip
def test_range(start, limit, delta, dtype):
    check(lambda a, b, d: raw.Range(start=a, limit=b, delta=d), *(np.array(v, dtype) for v in (start, limit, delta)))


@quick
@given(
    st.integers(-9, 9), st.integers(0, 30), st.integers(1, 4), st.sampled_from([0.1, 0.2, 1 / 3, 0.7]), st.booleans()
)
@example(0, 3, 1, 0.2, False)
@example(0, 0, 1, 0.1, True)
def test_a_float_range_has_the_length_that_float_arithmetic_gives(start, steps, every, unit, down):
    """0 to 0.6 by 0.2 is 3 numbers in float32, 4 in doubles."""
    sign = -1 if down else 1
    numbers = [np.array(k * unit, F32) for k in (start, start + sign * steps, sign * every)]
    check(lambda a, b, d: raw.Range(start=a, limit=b, delta=d), *numbers)


def test_a_bfloat16_range_counts_in_bfloat16():
    """Not against TensorFlow, whose CPU has no such range."""
    for outputs in evaluate(lambda a, b, d: raw.Range(start=a, limit=b, delta=d), *np.array([0, 0.6, 0.2], BF16)):
        np.testing.assert_array_equal(outputs[0], np.array([0, 0.2, 0.4], BF16))


@pytest.mark.parametrize(
    "numbers,message",
    [([0, 1, 0], "zero"), ([0, 1, -1], "go with"), ([np.nan, 1, 1], "go with"), ([0, np.inf, 1], "no end"),
     ([0, 1, np.nan], "go with")],
)  # fmt: skip
def test_refused_ranges(numbers, message):
    fn = lambda a, b, d: raw.Range(start=a, limit=b, delta=d)
    assert message in refusal(fn, *np.array(numbers, F32))
    with pytest.raises(tf.errors.InvalidArgumentError):
        reference(fn, *np.array(numbers, F32))


def test_ranges_of_one_length_are_one_program():
    def text(start):
        program, _ = lower_op(
            lambda a, b, d: raw.Range(start=a, limit=b, delta=d), *map(np.int32, (start, start + 4, 1))
        )
        return [repr(n) for n in program.nodes()]

    assert text(0) == text(7)
    zero = refusal(lambda a, b, d: raw.Range(start=a, limit=b, delta=d), *map(np.int32, (0, 4, 0)))
    assert "delta must not be zero" in zero


@pytest.mark.parametrize("n", [1, 2, 7])
def test_lin_space(n):
    check(lambda a, b, n: raw.LinSpace(start=a, stop=b, num=n), np.float32(1), np.float32(-2), np.int32(n))


@quick
@given(st.data(), SHAPES, st.sampled_from([np.int32, np.int64, np.uint8]), any_type)
def test_one_hot(data, shape, index, dtype):
    indices = data.draw(arrays(index, shape, low=-1, high=4))
    axis = data.draw(st.integers(-1, len(shape)))
    on, off = np.ones((), dtype), np.zeros((), dtype)
    check(
        lambda i, d, a, b: raw.OneHot(indices=i, depth=d, on_value=a, off_value=b, axis=axis),
        indices, np.int32(3), on, off,
    )  # fmt: skip


@pytest.mark.parametrize(
    "s0,s1",
    [([2, 3], [3]), ([1, 3], [2, 1]), ([], [4]), ([2, 3], [2, 3]), ([1, 1], [1]), ([1], [1]), ([1, 2], [1, 2]),
     ([2, 1, 1], [1, 5]), ([0, 3], [1, 3])],
)  # fmt: skip
def test_broadcast_args(s0, s1):
    for index in (np.int32, np.int64):
        s = np.array(s0, index), np.array(s1, index)
        check(lambda a, b: raw.BroadcastGradientArgs(s0=a, s1=b), *s)
        check(lambda a, b: raw.BroadcastArgs(s0=a, s1=b), *s)


def test_concat_offset():
    shapes = [np.array(s, np.int32) for s in ([2, 3, 4], [2, 1, 4], [2, 5, 4])]
    check(lambda d, *s: raw.ConcatOffset(concat_dim=d, shape=list(s)), np.int32(1), *shapes)


@quick
@given(st.data(), tensors())
def test_reshape(data, x):
    sizes = [d for d in range(1, 9) if x.size and x.size % d == 0]
    wanted = [data.draw(st.sampled_from(sizes)), -1] if sizes else [0, 4]
    index = data.draw(index_type)
    check(lambda x, s: raw.Reshape(tensor=x, shape=s), x, np.array(wanted, index))
    axis = data.draw(st.integers(-x.ndim - 1, x.ndim))
    check(lambda x, d: raw.ExpandDims(input=x, axis=d), x, index(axis))
    check(lambda x: raw.Squeeze(input=x, axis=[]), x)
    ones = [a - data.draw(st.sampled_from([0, x.ndim])) for a, n in enumerate(x.shape) if n == 1][:1]
    check(lambda x: raw.Squeeze(input=x, axis=ones), x)


def test_bad_arguments_are_refused():
    x = np.zeros((2, 3), F32)
    for wanted in ([4, 2], [-1, 4], [-1, -1], [-2, 3]):
        assert "Reshape" in refusal(lambda x, s: raw.Reshape(tensor=x, shape=s), x, np.array(wanted, np.int32))
    assert "axis 3" in refusal(lambda x, d: raw.ExpandDims(input=x, axis=d), x, np.int32(3))
    assert "cannot squeeze" in refusal(lambda x: raw.Squeeze(input=x, axis=[0]), x)
    assert "not a permutation" in refusal(lambda x, p: raw.Transpose(x=x, perm=p), x, np.int32([1, 1]))
    assert "does not stretch" in refusal(lambda x, s: raw.BroadcastTo(input=x, shape=s), x, np.int32([2, 4]))
    assert "agree" in refusal(lambda a, *v: raw.ConcatV2(values=list(v), axis=a), np.int32(0), x, x[:, :2])
    assert "one shape" in refusal(lambda *v: raw.Pack(values=list(v)), x, x[:1])
    assert "equal parts" in refusal(lambda d, x: raw.Split(axis=d, value=x, num_split=2), np.int32(1), x)


@quick
@given(st.data(), tensors())
def test_transpose(data, x):
    perm = data.draw(st.permutations(range(x.ndim)))
    check(lambda x, p: raw.Transpose(x=x, perm=p), x, np.array(perm, data.draw(index_type)))


def test_conjugate_transpose():
    x = np.arange(6, dtype=F32).reshape(1, 2, 3)
    check(lambda x, p: raw.ConjugateTranspose(x=x, perm=p), x, np.array([2, 0, 1], np.int32))


@quick
@given(st.data(), hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3))
def test_broadcast_to_and_tile(data, shape):
    inner = tuple(data.draw(st.sampled_from([1, n])) for n in shape)[data.draw(st.integers(0, len(shape))) :]
    x = data.draw(tensors(inner))
    check(lambda x, s: raw.BroadcastTo(input=x, shape=s), x, np.array(shape, np.int32))
    times = [data.draw(st.integers(0, 3)) for _ in inner]
    check(lambda x, m: raw.Tile(input=x, multiples=m), x, np.array(times, data.draw(index_type)))


def test_a_shape_computed_in_the_cluster_is_known():
    x = np.arange(12, dtype=F32).reshape(3, 4)

    def flatten(x):
        rows = raw.StridedSlice(input=raw.Shape(input=x), begin=[0], end=[1], strides=[1], shrink_axis_mask=1)
        return raw.Reshape(tensor=x, shape=raw.Pack(values=[rows, tf.constant(2), tf.constant(2)]))

    check(flatten, x)
    assert reference(flatten, x)[0].shape == (3, 2, 2)
