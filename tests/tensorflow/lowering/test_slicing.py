"""Slices against stock TensorFlow, and what of them is a run-time value."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from harness import BF16, F32, arrays, check, lower_op, quick, reference, refusal
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from habana_tf.ir.interpreter import run
from habana_tf.ir.primitives import Op

raw = tf.raw_ops
CUBES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)


@quick
@given(st.data(), CUBES, st.sampled_from([F32, BF16, np.dtype("int32"), np.dtype("bool")]))
def test_slice(data, shape, dtype):
    x = data.draw(arrays(dtype, shape, low=0))
    begin = [data.draw(st.integers(0, n)) for n in shape]
    size = [data.draw(st.sampled_from([-1, *range(n - b + 1)])) for n, b in zip(shape, begin, strict=True)]
    index = data.draw(st.sampled_from([np.int32, np.int64]))
    check(lambda x, b, s: raw.Slice(input=x, begin=b, size=s), x, np.array(begin, index), np.array(size, index))
    check(lambda x: raw.Slice(input=x, begin=tf.constant(begin), size=tf.constant(size)), x)


def test_slice_refuses():
    x = np.zeros((2, 3), F32)
    for begin, size in (([0, 2], [1, 2]), ([-1, 0], [1, 1]), ([0], [1])):
        assert "begin" in refusal(lambda x, b, s: raw.Slice(input=x, begin=b, size=s), x, _v(begin), _v(size))


def _v(values, dtype=np.int32):
    return np.array(values, dtype)


@st.composite
def strided(draw):
    """An array and the arguments of a valid StridedSlice of it."""
    shape = draw(CUBES)
    begin, end, strides = [], [], []
    masks = dict.fromkeys(("begin", "end", "ellipsis", "new_axis", "shrink_axis"), 0)
    axis, entry, ellipsis = 0, 0, False
    while axis < len(shape) and draw(st.integers(0, 5)):
        n = shape[axis]
        kind = draw(st.sampled_from(["range", "range", "index", "new", "ellipsis"]))
        at, stop = draw(st.integers(-n - 1, n + 1)), draw(st.integers(-n - 1, n + 1))
        step = draw(st.sampled_from([1, 1, 2, -1, -2]))
        if kind == "new":
            masks["new_axis"] |= 1 << entry
        elif kind == "ellipsis" and not ellipsis:
            masks["ellipsis"] |= 1 << entry
            ellipsis = True
        else:
            if kind == "index" and n:
                at, step = draw(st.integers(-n, n - 1)), 1
                masks["shrink_axis"] |= 1 << entry
            else:
                for name in ("begin", "end"):
                    masks[name] |= draw(st.sampled_from([0, 0, 1])) << entry
            axis += 1
        begin.append(at)
        end.append(stop)
        strides.append(step)
        entry += 1
    x = draw(arrays(F32, shape))
    return x, begin, end, strides, {f"{name}_mask": bits for name, bits in masks.items()}


def _valid(x, begin, end, strides, masks):
    try:
        return raw.StridedSlice(input=x, begin=_v(begin), end=_v(end), strides=_v(strides), **masks).numpy()
    except tf.errors.InvalidArgumentError:
        return None


@settings(quick, max_examples=80)
@given(strided(), st.sampled_from([np.int32, np.int64]))
def test_strided_slice(case, index):
    x, begin, end, strides, masks = case
    out = _valid(*case)
    if out is None:  # an ellipsis took axes that later entries speak of
        return
    arguments = [_v(a, index) for a in (begin, end, strides)]
    check(lambda x, b, e, s: raw.StridedSlice(input=x, begin=b, end=e, strides=s, **masks), x, *arguments)
    constants = [tf.constant(a) for a in arguments]
    check(lambda x: _constant_slice(x, constants, masks), x)
    shape = _v(x.shape, index)
    check(
        lambda n, b, e, s, dy: raw.StridedSliceGrad(shape=n, begin=b, end=e, strides=s, dy=dy, **masks),
        shape, *arguments, out,
    )  # fmt: skip
    check(
        lambda dy: raw.StridedSliceGrad(
            shape=tf.constant(shape), begin=tf.constant(arguments[0]), end=tf.constant(arguments[1]),
            strides=tf.constant(arguments[2]), dy=dy, **masks,
        ),
        out,
    )  # fmt: skip
    if out.size:
        check(
            lambda x, b, e, s, v: raw.TensorStridedSliceUpdate(
                input=x, begin=b, end=e, strides=s, value=v, **masks
            ),
            x, *arguments, out + np.float32(1),
        )  # fmt: skip


def _constant_slice(x, constants, masks):
    begin, end, strides = (tf.constant(a.numpy()) for a in constants)
    return raw.StridedSlice(input=x, begin=begin, end=end, strides=strides, **masks)


def test_strided_slice_refuses():
    x = np.zeros((2, 3), F32)
    call = lambda x, b, e, s: raw.StridedSlice(input=x, begin=b, end=e, strides=s, shrink_axis_mask=1)
    assert "slice index 2 of dimension 0 out of bounds" in refusal(call, x, _v([2]), _v([3]), _v([1]))
    assert "non-zero" in refusal(call, x, _v([0]), _v([3]), _v([0]))


def test_row_of_a_tensor_is_one_program_for_every_index():
    x = np.arange(12, dtype=F32).reshape(4, 3)

    def row(i):
        return lower_op(
            lambda x, b, e, s: raw.StridedSlice(input=x, begin=b, end=e, strides=s, shrink_axis_mask=1),
            x, _v([i]), _v([i + 1]), _v([1]),
        )  # fmt: skip

    (program, given), (other, _) = row(1), row(-2)
    assert [repr(n) for n in program.nodes()] == [repr(n) for n in other.nodes()]
    for i in range(-4, 4):
        arguments = [a if a is x else _v([i]) if k == 1 else a for k, a in enumerate(given)]
        np.testing.assert_array_equal(run(program, arguments)[0], x[i])


def test_slice_from_constants_is_a_view():
    x = np.arange(12, dtype=F32).reshape(4, 3)
    program, _ = lower_op(lambda x: x[1:3, ::2], x)
    assert Op.GATHER not in {n.op for n in program.nodes()}
    np.testing.assert_array_equal(reference(lambda x: x[1:3, ::2], x)[0], x[1:3, ::2])


@quick
@given(st.data(), CUBES)
def test_reverse(data, shape):
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True))
    x = data.draw(arrays(F32, shape))
    axes = [a - data.draw(st.sampled_from([0, len(shape)])) for a in axes]
    check(lambda x, a: raw.ReverseV2(tensor=x, axis=a), x, _v(axes, data.draw(st.sampled_from([np.int32, np.int64]))))


@quick
@given(st.data(), CUBES)
def test_roll(data, shape):
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=3))
    shift = [data.draw(st.integers(-6, 6)) for _ in axes]
    x = data.draw(arrays(F32, shape))
    check(lambda x, s, a: raw.Roll(input=x, shift=s, axis=a), x, _v(shift), _v(axes))
    check(lambda x: raw.Roll(input=x, shift=tf.constant(shift), axis=tf.constant(axes)), x)
    check(lambda x, s, a: raw.Roll(input=x, shift=s, axis=a), x, _v(shift[0], np.int64), _v(axes[0]))
