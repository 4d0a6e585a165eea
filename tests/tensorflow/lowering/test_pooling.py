"""Max and average pooling with their gradients against stock TensorFlow on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from harness import BF16, F32, check, evaluate, lower_op, quick, reference, refusal
from hypothesis import assume, example, given
from hypothesis import strategies as st
from rounding import check_both

from habana_tf.compiler.rewrite import rewrite
from habana_tf.compiler.schedule import schedule
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Op

R = tf.raw_ops


def values(shape: Any, seed: int, ties: bool) -> Any:
    """Normals, or small integers, so that many windows have more than one maximum."""
    generator = np.random.default_rng([seed, *shape])
    x = generator.integers(-2, 3, shape) if ties else generator.normal(size=shape)
    return x.astype(F32).astype(BF16).astype(F32)


@st.composite
def cases(draw: Any) -> Any:
    size, kernel = [[draw(st.integers(1, n)) for _ in range(2)] for n in (7, 3)]
    stride = [draw(st.integers(1, 4)) for _ in range(2)]
    padding = draw(st.sampled_from(["SAME", "VALID"]))
    if padding == "VALID":
        assume(all(n >= k for n, k in zip(size, kernel, strict=True)))
    attrs = {"ksize": [1, *kernel, 1], "strides": [1, *stride, 1], "padding": padding}
    return attrs, [draw(st.integers(1, 2)), *size, draw(st.integers(1, 3))]


COMMON = ({"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}, [2, 7, 6, 3])
OVERLAPPING = ({"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}, [2, 7, 6, 3])


@quick
@given(cases(), st.booleans())
@example(COMMON, True)
@example(OVERLAPPING, True)
def test_max_pool_and_gradient(case: Any, ties: bool) -> None:
    attrs, shape = case
    x = values(shape, 0, ties)
    check_both(lambda a: R.MaxPool(input=a, **attrs), x, rtol=0, atol=0)
    y = R.MaxPool(input=x, **attrs).numpy()
    dy = values(y.shape, 1, False)
    check_both(lambda a, b, g: R.MaxPoolGrad(orig_input=a, orig_output=b, grad=g, **attrs), x, y, dy)


@quick
@given(cases())
@example(COMMON)
@example(OVERLAPPING)
def test_average_pool_and_gradient(case: Any) -> None:
    attrs, shape = case
    x = values(shape, 0, False)
    check_both(lambda a: R.AvgPool(value=a, **attrs), x)
    dy = values(R.AvgPool(value=x, **attrs).shape, 1, False)
    check_both(lambda g: R.AvgPoolGrad(orig_input_shape=shape, grad=g, **attrs), dy)


def test_pooling_in_three_dimensions() -> None:
    x = np.random.default_rng(0).permutation(480).reshape(2, 5, 4, 6, 2).astype(F32) / 64 - 3  # no ties
    for stride in (1, 2):
        attrs = {"ksize": [1, 2, 2, 2, 1], "strides": [1, stride, stride, stride, 1], "padding": "SAME"}
        check_both(lambda a, attrs=attrs: R.MaxPool3D(input=a, **attrs), x)
        check_both(lambda a, attrs=attrs: R.AvgPool3D(input=a, **attrs), x)
        y = R.MaxPool3D(input=x, **attrs).numpy()
        dy = values(y.shape, 1, False)
        check(lambda a, b, g, k=attrs: R.MaxPool3DGrad(orig_input=a, orig_output=b, grad=g, **k), x, y, dy)
        check_both(lambda g, k=attrs: R.AvgPool3DGrad(orig_input_shape=x.shape, grad=g, **k), dy)


def test_the_first_of_equal_maxima_gets_the_gradient() -> None:
    """As in TensorFlow's graphs with oneDNN; its other kernel for three dimensions gives it to each of them."""
    x, dy = np.ones((1, 2, 2, 2, 1), F32), np.full((1, 1, 1, 1, 1), 3, F32)
    attrs = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "VALID"}
    want = np.zeros_like(x)
    want[0, 0, 0, 0, 0] = 3
    fn = lambda a, b, g: R.MaxPool3DGrad(orig_input=a, orig_output=b, grad=g, **attrs)
    for (got,) in evaluate(fn, x, dy / 3, dy):
        np.testing.assert_array_equal(got, want)


def test_explicit_padding() -> None:
    x = values([1, 5, 5, 2], 0, False)
    attrs = {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "EXPLICIT"}
    pads = [0, 0, 1, 0, 2, 1, 0, 0]
    padded = np.pad(x, [(0, 0), (1, 0), (2, 1), (0, 0)], constant_values=-np.inf)
    want = R.MaxPool(input=padded, **{**attrs, "padding": "VALID"}).numpy()
    for (got,) in evaluate(lambda a: R.MaxPool(input=a, explicit_paddings=pads, **attrs), x):
        np.testing.assert_array_equal(got, want)


def test_infinities_are_maxima_and_minima() -> None:
    x = values([1, 4, 4, 1], 0, False)
    x[0, 0, 0, 0], x[0, 3, 3, 0] = np.inf, -np.inf
    check(lambda a: R.MaxPool(input=a, **COMMON[0]), x)
    check(lambda a: R.AvgPool(value=a, **COMMON[0]), x)


@quick
@given(cases(), st.integers(0, 99), st.floats(0.5, 1))
@example(OVERLAPPING, 0, 1.0)
def test_padding_wins_over_no_element(case: Any, seed: int, share: float) -> None:
    """Windows of -inf alone have their maximum at their first element, never before the image."""
    attrs, shape = case
    x = values(shape, 0, False)
    x[np.random.default_rng(seed).uniform(size=shape) < share] = -np.inf
    check(lambda a: R.MaxPoolWithArgmax(input=a, **attrs), x)
    y = R.MaxPoolWithArgmax(input=x, **attrs)[0].numpy()  # MaxPool itself has the lowest finite number for -inf
    dy, ddx = values(y.shape, 1, False), values(shape, 2, False)
    check(lambda a, b, g: R.MaxPoolGrad(orig_input=a, orig_output=b, grad=g, **attrs), x, y, dy)
    check(lambda a, b, g: R.MaxPoolGradGrad(orig_input=a, orig_output=b, grad=g, **attrs), x, y, ddx)


def test_an_empty_batch() -> None:
    x = np.zeros((0, 4, 4, 1), F32)
    check(lambda a: R.MaxPool(input=a, **COMMON[0]), x)
    for (dx,) in evaluate(
        lambda a, b, g: R.MaxPoolGrad(orig_input=a, orig_output=b, grad=g, **COMMON[0]), x, x[:, :2, :2], x[:, :2, :2]
    ):
        assert dx.shape == x.shape


def test_disjoint_windows_need_no_sum() -> None:
    """Their gradient is one argmax and one elementwise pass."""
    x = values(COMMON[1], 0, False)
    y = R.MaxPool(input=x, **COMMON[0]).numpy()
    program, _ = lower_op(lambda a, b, g: R.MaxPoolGrad(orig_input=a, orig_output=b, grad=g, **COMMON[0]), x, y, y)
    assert [n.arg[0] for n in program.nodes() if n.op is Op.REDUCE] == ["argmax"]


def test_one_kernel_finds_a_maximum_and_its_place() -> None:
    """The forward pass reads its windows for the gradient too, which reads a byte of each."""
    x = values(COMMON[1], 0, False)
    y = R.MaxPool(input=x, **COMMON[0]).numpy()

    def both(a: Any, b: Any, g: Any) -> Any:
        return R.MaxPool(input=a, **COMMON[0]), R.MaxPoolGrad(orig_input=a, orig_output=b, grad=g, **COMMON[0])

    program, _ = lower_op(both, x, y, y)
    kernels = [kernel for kernel in schedule(rewrite(program)).kernels if kernel.reductions]
    assert [[r.node.arg[0] for r in kernel.reductions] for kernel in kernels] == [["max", "argmax"]]
    assert kernels[0].reductions[1].node.dtype is DType.I8


@pytest.mark.parametrize("size", [12, 11])
def test_windows_with_more_places_than_a_byte_has(size: int) -> None:
    attrs: Any = {"ksize": [1, size, size, 1], "strides": [1, size, size, 1], "padding": "VALID"}
    x = values([1, 2 * size, 2 * size, 2], 0, False)
    x[0, size - 1, size - 1] = 9  # the last of a window
    y = R.MaxPool(input=x, **attrs).numpy()
    check(lambda a: R.MaxPool(input=a, **attrs), x)
    check(lambda a, b, g: R.MaxPoolGrad(orig_input=a, orig_output=b, grad=g, **attrs), x, y, values(y.shape, 1, False))


@quick
@given(cases())
def test_the_second_version_takes_its_attributes_as_inputs(case: Any) -> None:
    attrs, shape = case
    x = values(shape, 0, ties=True)
    window, strides = np.int32(attrs["ksize"]), np.int32(attrs["strides"])
    padding = attrs["padding"]
    check(lambda x, k, s: R.MaxPoolV2(input=x, ksize=k, strides=s, padding=padding), x, window, strides)
    y = R.MaxPool(input=x, **attrs).numpy()
    dy = values(y.shape, 1, ties=False)
    check(
        lambda x, y, dy, k, s: R.MaxPoolGradV2(
            orig_input=x, orig_output=y, grad=dy, ksize=k, strides=s, padding=padding
        ),
        x, y, dy, window, strides,
    )  # fmt: skip


@quick
@given(cases(), st.booleans(), st.booleans())
@example(COMMON, True, True)
@example(OVERLAPPING, True, False)
def test_max_pool_with_places(case: Any, batch: bool, ties: bool) -> None:
    attrs, shape = case
    attrs = {**attrs, "include_batch_in_index": batch}
    x = values(shape, 0, ties)
    for index in (tf.int32, tf.int64):
        check(lambda a, index=index: R.MaxPoolWithArgmax(input=a, Targmax=index, **attrs), x)
    y, places = (t.numpy() for t in R.MaxPoolWithArgmax(input=x, **attrs))
    dy = values(y.shape, 1, False)
    check(lambda a, g, p: R.MaxPoolGradWithArgmax(input=a, grad=g, argmax=p, **attrs), x, dy, places)


@quick
@given(cases())
@example(COMMON)
@example(OVERLAPPING)
def test_the_second_gradient_of_max_pool(case: Any) -> None:
    attrs, shape = case
    x, ddx = values(shape, 0, False), values(shape, 2, False)
    y = R.MaxPool(input=x, **attrs).numpy()
    check(lambda a, b, g: R.MaxPoolGradGrad(orig_input=a, orig_output=b, grad=g, **attrs), x, y, ddx)
    window, strides = np.int32(attrs["ksize"]), np.int32(attrs["strides"])
    check(
        lambda a, b, g, k, s: R.MaxPoolGradGradV2(
            orig_input=a, orig_output=b, grad=g, ksize=k, strides=s, padding=attrs["padding"]
        ),
        x, y, ddx, window, strides,
    )  # fmt: skip


@quick
@given(st.lists(st.integers(1, 4), min_size=4, max_size=4), st.integers(1, 3), st.integers(1, 2), st.integers(1, 2),
       st.sampled_from(["SAME", "VALID"]))  # fmt: skip
def test_the_second_gradient_in_three_dimensions(shape: Any, channels: int, kernel: int, stride: int, pad: str) -> None:
    assume(pad == "SAME" or min(shape[1:]) >= kernel)
    attrs = {"ksize": [1, *[kernel] * 3, 1], "strides": [1, *[stride] * 3, 1], "padding": pad}
    x, ddx = values([*shape, channels], 0, False), values([*shape, channels], 2, False)
    y = R.MaxPool3D(input=x, **attrs).numpy()
    check(lambda a, b, g: R.MaxPool3DGradGrad(orig_input=a, orig_output=b, grad=g, **attrs), x, y, ddx)


@quick
@given(st.lists(st.integers(1, 3), min_size=3, max_size=3), st.integers(1, 3), st.integers(2, 4), st.integers(1, 2),
       st.sampled_from(["SAME", "VALID"]))  # fmt: skip
def test_max_pool_over_channels(shape: Any, groups: int, group: int, stride: int, padding: str) -> None:
    """TensorFlow's own kernel takes no notice of strides over the image then."""
    attrs = {"ksize": [1, 1, 1, group], "strides": [1, stride, stride, group], "padding": padding}
    x = values([*shape, groups * group], 0, True)
    check_both(lambda a: R.MaxPool(input=a, **attrs), x)
    sizes = np.int32(attrs["ksize"]), np.int32(attrs["strides"])
    check(lambda a, k, s: R.MaxPoolV2(input=a, ksize=k, strides=s, padding=padding), x, *sizes)
    check(lambda a: R.MaxPoolWithArgmax(input=a, **attrs), x)  # which looks for no maximum among the channels


def test_a_stride_over_channels_counts_for_nothing() -> None:
    attrs = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 2], "padding": "VALID"}
    x = values([2, 4, 4, 6], 0, False)
    for fn in (lambda a: R.MaxPool(input=a, **attrs), lambda a: R.MaxPoolWithArgmax(input=a, **attrs)):
        check(fn, x)
    check(lambda a: R.AvgPool(value=a, **attrs), x)
    check(lambda g: R.AvgPoolGrad(orig_input_shape=x.shape, grad=g, **attrs), values([2, 2, 2, 6], 1, False))


@pytest.mark.parametrize("window", [[1, 1, 1, 4], [1, 2, 2, 2], [2, 1, 1, 1]])
def test_windows_that_no_pooling_takes(window: Any) -> None:
    x = values([2, 4, 4, 6], 0, False)
    for fn in (R.MaxPool, R.MaxPoolWithArgmax):
        pool = lambda a, fn=fn: fn(input=a, ksize=window, strides=window, padding="VALID")
        with pytest.raises(tf.errors.UnimplementedError):
            reference(pool, x)
        assert "MaxPool" in refusal(pool, x)


def test_gradients_of_another_shape_than_the_result_are_refused() -> None:
    x, attrs = values([2, 3, 3, 4], 0, False), {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}
    y = R.MaxPool(input=x, **attrs).numpy()
    for shape in ([1, 2, 2, 4], [2, 3, 2, 4], [2, 2, 2, 1], [2, 1, 1, 4]):
        dy = values(shape, 1, False)
        fn = lambda a, b, g: R.MaxPoolGrad(orig_input=a, orig_output=b, grad=g, **attrs)
        with pytest.raises(tf.errors.InvalidArgumentError):
            reference(fn, x, y, dy)
        assert str(shape) in refusal(fn, x, y, dy)
        if shape[0] == 2:
            assert str(shape) in refusal(lambda g: R.AvgPoolGrad(orig_input_shape=x.shape, grad=g, **attrs), dy)


def test_padding_of_a_whole_window_is_refused() -> None:
    attrs = {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "EXPLICIT"}
    fn = lambda a: R.MaxPool(input=a, explicit_paddings=[0, 0, 2, 0, 0, 0, 0, 0], **attrs)
    with pytest.raises(tf.errors.InvalidArgumentError):
        reference(fn, values([1, 3, 3, 1], 0, False))
    assert "smaller than the windows" in refusal(fn, values([1, 3, 3, 1], 0, False))


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 2), (3, 1)])
def test_nan_is_passed_over(kernel: int, stride: int) -> None:
    """Windows with NaN first, last, alone and among infinities; the op with positions gives a NaN that stands first."""
    generator = np.random.default_rng(kernel)
    x = generator.normal(size=(3, 8, 8, 19)).astype(F32)
    x[generator.uniform(size=x.shape) < 0.3] = np.nan
    x[generator.uniform(size=x.shape) < 0.3] = -np.inf
    x[1], x[2] = np.nan, -np.inf
    check(lambda x: tf.nn.max_pool2d(x, kernel, stride, "SAME"), x)
    # TensorFlow's own bfloat16 begins with -inf or with its least number, by the CPU; float32's, rounded, is -inf.
    pool, short = (lambda x: tf.nn.max_pool2d(x, kernel, stride, "SAME")), x.astype(BF16)
    (want,) = reference(pool, short.astype(F32))
    for (got,) in evaluate(pool, short):
        np.testing.assert_array_equal(got.astype(F32), want.astype(BF16).astype(F32))
    check(lambda x: tf.nn.max_pool_with_argmax(x, kernel, stride, "SAME"), x)


def test_the_gradient_of_a_window_with_nan_goes_to_its_maximum() -> None:
    x = np.array([[1, np.nan], [3, 2], [np.nan, 1], [2, 3], [np.nan, np.nan], [np.nan, np.nan]], F32)
    call = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    x, y, dy = x.reshape(1, 6, 2, 1), np.array([3, 3, -3e38], F32).reshape(1, 3, 1, 1), np.ones((1, 3, 1, 1), F32)
    for (got,) in evaluate(lambda x, y, dy: R.MaxPoolGrad(orig_input=x, orig_output=y, grad=dy, **call), x, y, dy):
        np.testing.assert_array_equal(got.reshape(-1), [0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0])
