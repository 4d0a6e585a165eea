"""Convolutions with their gradients against stock TensorFlow on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from harness import F32, evaluate, lower_op, quick, reference, refusal
from hypothesis import assume, given
from hypothesis import strategies as st
from rounding import check_products

from habana_tf.ir.primitives import Op

R = tf.raw_ops


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(F32)


@st.composite
def convolutions(draw: Any, rank: int = 2, grouped: bool = True, dilated: bool = True) -> Any:
    """Attributes and shapes of a convolution that TensorFlow's CPU kernels take."""
    kernel = [draw(st.integers(1, 3)) for _ in range(rank)]
    stride = [draw(st.integers(1, 3))] * rank
    dilation = [draw(st.sampled_from([1, 1, 2] if dilated else [1]))] * rank
    size = [draw(st.integers(1, 8)) for _ in range(rank)]
    padding = draw(st.sampled_from(["SAME", "VALID", "EXPLICIT"] if rank == 2 else ["SAME", "VALID"]))
    pads = [draw(st.integers(0, 2)) if padding == "EXPLICIT" else 0 for _ in range(2 * rank)]
    if padding != "SAME":
        for i in range(rank):
            assume(size[i] + pads[2 * i] + pads[2 * i + 1] >= (kernel[i] - 1) * dilation[i] + 1)
    groups = draw(st.sampled_from([1, 1, 2])) if grouped else 1
    channels, outer = draw(st.integers(1, 3)) * groups, draw(st.integers(1, 3)) * groups
    batch = draw(st.integers(1, 3))
    attrs: dict[str, Any] = {"strides": [1, *stride, 1], "dilations": [1, *dilation, 1], "padding": padding}
    if padding == "EXPLICIT":
        attrs["explicit_paddings"] = [0, 0, *pads, 0, 0]
    return attrs, [batch, *size, channels], [*kernel, channels // groups, outer]


def _output_shape(op: Any, attrs: Any, x: Any, w: Any) -> list[int]:
    return list(op(input=tf.zeros(x), filter=tf.zeros(w), **attrs).shape)


@quick
@given(convolutions())
def test_conv2d(case: Any) -> None:
    attrs, x, w = case
    check_products(lambda a, b: R.Conv2D(input=a, filter=b, **attrs), normal(*x), normal(*w, seed=1))


def check_gradients(forward: Any, to_input: Any, to_filter: Any, case: Any) -> None:
    attrs, xs, ws = case
    dys = _output_shape(forward, attrs, xs, ws)
    x, w, dy = normal(*xs), normal(*ws, seed=1), normal(*dys, seed=2)
    check_products(lambda f, g: to_input(input_sizes=xs, filter=f, out_backprop=g, **attrs), w, dy)
    check_products(lambda f, g: to_filter(input=f, filter_sizes=ws, out_backprop=g, **attrs), x, dy)


@quick
@given(convolutions(grouped=False, dilated=False))
def test_conv2d_gradients(case: Any) -> None:
    check_gradients(R.Conv2D, R.Conv2DBackpropInput, R.Conv2DBackpropFilter, case)


@quick
@given(convolutions())
def test_conv2d_gradients_are_adjoint(case: Any) -> None:
    """<conv(x, w), dy> = <x, dx> = <w, dw>: also for dilations and groups, where TensorFlow's CPU has no kernels."""
    attrs, xs, ws = case
    x, w = normal(*xs), normal(*ws, seed=1)
    y = R.Conv2D(input=x, filter=w, **attrs).numpy()
    dy = normal(*y.shape, seed=2)
    to_input = lambda f, g: R.Conv2DBackpropInput(input_sizes=xs, filter=f, out_backprop=g, **attrs)
    to_filter = lambda a, g: R.Conv2DBackpropFilter(input=a, filter_sizes=ws, out_backprop=g, **attrs)
    total, scale = np.vdot(y, dy), np.abs(y * dy).sum() + 1e-3
    for operand, gradients in ((x, evaluate(to_input, w, dy)), (w, evaluate(to_filter, x, dy))):
        for (gradient,) in gradients:
            assert abs(np.vdot(operand, gradient) - total) < 1e-4 * scale + 1e-4


@quick
@given(convolutions(rank=3, grouped=False, dilated=False))
def test_conv3d(case: Any) -> None:
    attrs, x, w = case
    check_products(lambda a, b: R.Conv3D(input=a, filter=b, **attrs), normal(*x), normal(*w, seed=1))
    check_gradients(R.Conv3D, R.Conv3DBackpropInputV2, R.Conv3DBackpropFilterV2, (attrs, x, w))


def test_an_empty_batch_gives_an_empty_result_and_a_zero_filter_gradient() -> None:
    attrs = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    x, w, dy = normal(0, 4, 4, 2), normal(3, 3, 2, 5), normal(0, 4, 4, 5)
    for (y,) in evaluate(lambda a, b: R.Conv2D(input=a, filter=b, **attrs), x, w):
        assert y.shape == (0, 4, 4, 5)
    for (dw,) in evaluate(
        lambda a, g: R.Conv2DBackpropFilter(input=a, filter_sizes=w.shape, out_backprop=g, **attrs), x, dy
    ):
        assert dw.shape == w.shape
        assert not dw.any()


@pytest.mark.parametrize("shape", [(1, 2, 2, 5), (2, 3, 2, 5), (2, 2, 2, 4), (2, 1, 1, 5)])
def test_gradients_of_another_shape_than_the_result_are_refused(shape: Any) -> None:
    attrs = {"strides": [1, 1, 1, 1], "padding": "VALID"}
    x, w, dy = normal(2, 3, 3, 4), normal(2, 2, 4, 5), normal(*shape)
    to_input = lambda f, g: R.Conv2DBackpropInput(input_sizes=[2, 3, 3, 4], filter=f, out_backprop=g, **attrs)
    to_filter = lambda a, g: R.Conv2DBackpropFilter(input=a, filter_sizes=[2, 2, 4, 5], out_backprop=g, **attrs)
    for fn, operand in ((to_input, w), (to_filter, x)):
        with pytest.raises(tf.errors.OpError):
            reference(fn, operand, dy)
        assert str(list(shape)) in refusal(fn, operand, dy)


def test_input_sizes_may_leave_out_batch_and_channels() -> None:
    attrs = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    w, dy = normal(3, 3, 2, 5), normal(2, 4, 4, 5)
    check_products(lambda f, g: R.Conv2DBackpropInput(input_sizes=[4, 4], filter=f, out_backprop=g, **attrs), w, dy)


def test_a_one_by_one_convolution_is_a_plain_product() -> None:
    program, _ = lower_op(
        lambda a, b: R.Conv2D(input=a, filter=b, strides=[1, 1, 1, 1], padding="SAME"),
        normal(2, 4, 4, 3), normal(1, 1, 3, 5),
    )  # fmt: skip
    assert {n.op for n in program.nodes()} <= {Op.INPUT, Op.RESHAPE, Op.CONTRACT}


def test_forward_and_filter_gradient_see_the_same_windows() -> None:
    """One window node for both, so that a code generator meets one access pattern."""
    attrs = {"strides": [1, 1, 1, 1], "padding": "SAME"}

    def both(x: Any, w: Any, dy: Any) -> Any:
        return R.Conv2D(input=x, filter=w, **attrs), R.Conv2DBackpropFilter(
            input=x, filter_sizes=[3, 3, 2, 5], out_backprop=dy, **attrs
        )

    program, _ = lower_op(both, normal(1, 4, 4, 2), normal(3, 3, 2, 5), normal(1, 4, 4, 5))
    assert sum(n.op is Op.WINDOW for n in program.nodes()) == 1


def test_a_strided_input_gradient_multiplies_no_zeros() -> None:
    """5x5 windows with stride 2, as in a transposed convolution: four phases, no zeros between dy's elements."""
    attrs = {"strides": [1, 2, 2, 1], "padding": "SAME"}

    def fn(f: Any, g: Any) -> Any:
        return R.Conv2DBackpropInput(input_sizes=[2, 8, 8, 3], filter=f, out_backprop=g, **attrs)

    w, dy = normal(5, 5, 3, 4), normal(2, 4, 4, 4, seed=1)
    check_products(fn, w, dy)
    program, _ = lower_op(fn, w, dy)
    assert sum(n.op is Op.CONTRACT for n in program.nodes()) == 4
    assert not any(n.op is Op.PAD and any(n.arg[2]) for n in program.nodes())
