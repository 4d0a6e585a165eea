"""Depthwise convolution and its gradients against stock TensorFlow on the CPU (sums in another order)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from harness import F32, evaluate, quick, reference, refusal
from hypothesis import assume, given
from hypothesis import strategies as st
from rounding import UNITS, check_products

R = tf.raw_ops


def normal(shape: Any, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(F32)


@st.composite
def cases(draw: Any, dilated: bool) -> Any:
    kernel = [draw(st.integers(1, 3)), draw(st.integers(1, 3))]
    size = [draw(st.integers(1, 7)), draw(st.integers(1, 7))]
    stride = draw(st.integers(1, 2))
    dilation = draw(st.sampled_from([1, 2])) if dilated and stride == 1 else 1
    padding = draw(st.sampled_from(["SAME", "VALID"]))
    if padding == "VALID":
        assume(all(n >= (k - 1) * dilation + 1 for n, k in zip(size, kernel, strict=True)))
    channels, multiplier = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    attrs = {"strides": [1, stride, stride, 1], "dilations": [1, dilation, dilation, 1], "padding": padding}
    return attrs, [draw(st.integers(1, 2)), *size, channels], [*kernel, channels, multiplier]


@quick
@given(cases(dilated=False))
def test_depthwise_and_gradients(case: Any) -> None:
    attrs, xs, ws = case
    x, w = normal(xs), normal(ws, 1)
    check_products(lambda a, b: R.DepthwiseConv2dNative(input=a, filter=b, **attrs), x, w)
    dy = normal(R.DepthwiseConv2dNative(input=x, filter=w, **attrs).shape.as_list(), 2)
    check_products(
        lambda f, g: R.DepthwiseConv2dNativeBackpropInput(input_sizes=xs, filter=f, out_backprop=g, **attrs),
        w, dy,
    )  # fmt: skip
    check_products(
        lambda a, g: R.DepthwiseConv2dNativeBackpropFilter(input=a, filter_sizes=ws, out_backprop=g, **attrs),
        x, dy,
    )  # fmt: skip


@quick
@given(cases(dilated=True))
def test_a_depthwise_convolution_is_a_convolution_with_a_diagonal_filter(case: Any) -> None:
    """Dilations too, which TensorFlow's CPU kernel has not: the oracle is Conv2D with zeros between channels."""
    attrs, xs, ws = case
    x, w = normal(xs), normal(ws, 1)
    full = np.zeros((*ws[:3], ws[2] * ws[3]), F32)
    for channel in range(ws[2]):
        full[:, :, channel, channel * ws[3] : (channel + 1) * ws[3]] = w[:, :, channel]
    want = R.Conv2D(input=x, filter=full, **attrs).numpy()
    for (got,) in evaluate(lambda a, b: R.DepthwiseConv2dNative(input=a, filter=b, **attrs), x, w):
        np.testing.assert_allclose(got, want, rtol=0, atol=UNITS * np.abs(x).max() * np.abs(w).sum((0, 1)).max())


@pytest.mark.parametrize("shape", [(1, 2, 2, 8), (2, 3, 2, 8), (2, 2, 2, 4), (2, 1, 1, 8)])
def test_gradients_of_another_shape_than_the_result_are_refused(shape: Any) -> None:
    attrs = {"strides": [1, 1, 1, 1], "padding": "VALID"}
    xs, ws = [2, 3, 3, 4], [2, 2, 4, 2]
    to_input = lambda f, g: R.DepthwiseConv2dNativeBackpropInput(input_sizes=xs, filter=f, out_backprop=g, **attrs)
    to_filter = lambda a, g: R.DepthwiseConv2dNativeBackpropFilter(input=a, filter_sizes=ws, out_backprop=g, **attrs)
    for fn, operand in ((to_input, normal(ws)), (to_filter, normal(xs))):
        with pytest.raises(tf.errors.OpError):
            reference(fn, operand, normal(shape))
        assert str(list(shape)) in refusal(fn, operand, normal(shape))
