"""Channels-first images: stock TensorFlow has few such kernels on the CPU, so its channels-last ones are the oracle,
between transpositions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from harness import F32, check, evaluate, refusal

R = tf.raw_ops

FIRST, LAST = [0, 3, 1, 2], [0, 2, 3, 1]
STRIDES, PADS = [1, 2, 1, 1], [0, 0, 1, 2, 0, 1, 0, 0]


def normal(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(F32)


def attributes(attrs: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a channels-last op for channels-first images."""
    out = {**attrs, "data_format": "NCHW"}
    for name in ("strides", "ksize", "dilations"):
        if name in attrs:
            out[name] = [attrs[name][k] for k in FIRST]
    if "explicit_paddings" in attrs:
        out["explicit_paddings"] = [attrs["explicit_paddings"][2 * k + side] for k in FIRST for side in (0, 1)]
    return out


X, W, DY = normal(2, 7, 6, 3), normal(3, 2, 3, 4), normal(2, 4, 6, 4)
EXPLICIT = {"strides": STRIDES, "padding": "EXPLICIT", "explicit_paddings": PADS}
WINDOW = {"ksize": [1, 2, 3, 1], "strides": STRIDES, "padding": "SAME"}
DEPTH_W, DEPTH_DY = normal(3, 2, 3, 2), normal(2, 4, 6, 6)

CASES: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = {
    "Conv2D": (lambda x, w, **a: R.Conv2D(input=x, filter=w, **a), (X, W), EXPLICIT, (0,)),
    "Conv2DBackpropFilter": (
        lambda x, dy, **a: R.Conv2DBackpropFilter(input=x, filter_sizes=W.shape, out_backprop=dy, **a),
        (X, DY), EXPLICIT, (0, 1),
    ),
    "DepthwiseConv2dNative": (
        lambda x, w, **a: R.DepthwiseConv2dNative(input=x, filter=w, **a), (X, DEPTH_W), {**EXPLICIT,
        "strides": [1, 2, 2, 1]}, (0,),
    ),
    "MaxPool": (lambda x, **a: R.MaxPool(input=x, **a), (X,), WINDOW, (0,)),
    "AvgPool": (lambda x, **a: R.AvgPool(value=x, **a), (X,), WINDOW, (0,)),
    "MaxPoolGrad": (
        lambda x, y, dy, **a: R.MaxPoolGrad(orig_input=x, orig_output=y, grad=dy, **a),
        (X, normal(2, 4, 6, 3), normal(2, 4, 6, 3)), WINDOW, (0, 1, 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_channels_first_agrees_with_channels_last(name: str) -> None:
    fn, arrays, attrs, images = CASES[name]
    want = fn(*arrays, **attrs).numpy()
    if name != "Conv2DBackpropFilter":
        want = want.transpose(FIRST)
    turned = [a.transpose(FIRST) if k in images else a for k, a in enumerate(arrays)]
    for outputs in evaluate(lambda *xs: fn(*xs, **attributes(attrs)), *turned):
        np.testing.assert_allclose(outputs[0], want, rtol=1e-5, atol=1e-5)


def test_sizes_are_channels_first_too() -> None:
    want = R.Conv2DBackpropInput(input_sizes=X.shape, filter=W, out_backprop=DY, **EXPLICIT).numpy().transpose(FIRST)

    def ours(w: Any, dy: Any) -> Any:
        sizes = [X.shape[k] for k in FIRST]
        return R.Conv2DBackpropInput(input_sizes=sizes, filter=w, out_backprop=dy, **attributes(EXPLICIT))

    for outputs in evaluate(ours, W, DY.transpose(FIRST)):
        np.testing.assert_allclose(outputs[0], want, rtol=1e-5, atol=1e-5)
    grad = normal(2, 4, 6, 3)
    pooled = R.AvgPoolGrad(orig_input_shape=X.shape, grad=grad, **WINDOW).numpy().transpose(FIRST)
    sizes = [X.shape[k] for k in FIRST]
    for outputs in evaluate(
        lambda dy: R.AvgPoolGrad(orig_input_shape=sizes, grad=dy, **attributes(WINDOW)), grad.transpose(FIRST)
    ):
        np.testing.assert_allclose(outputs[0], pooled, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("training", [False, True])
def test_batch_normalization(training: bool) -> None:
    """TensorFlow has channels-first kernels of this one: Keras' layer normalization is made of it."""
    x, dy, scale, offset = X.transpose(FIRST), normal(2, 7, 6, 3).transpose(FIRST), normal(3), normal(3)
    mean, variance = normal(3), np.abs(normal(3)) + 0.5
    attrs = {"is_training": training, "data_format": "NCHW", "epsilon": 1e-3}
    check(
        lambda *xs: R.FusedBatchNormV3(x=xs[0], scale=xs[1], offset=xs[2], mean=xs[3], variance=xs[4], **attrs)[:3],
        x, scale, offset, mean, variance, rtol=1e-4,
    )  # fmt: skip
    if training:
        check(
            lambda *xs: R.FusedBatchNormGradV3(
                y_backprop=xs[0], x=xs[1], scale=xs[2], reserve_space_1=xs[3], reserve_space_2=xs[4],
                reserve_space_3=xs[3], **attrs,
            )[:3],
            dy, x, scale, mean, variance, rtol=1e-4, atol=1e-4,
        )  # fmt: skip


def test_another_rank_is_refused() -> None:
    message = refusal(lambda x: R.AvgPool(value=x, ksize=[1] * 4, strides=[1] * 4, padding="SAME",
                                          data_format="NCHW"), np.zeros((2, 3, 4), F32))  # fmt: skip
    assert "rank 4" in message


def test_average_pooling_over_three_axes() -> None:
    x, attrs = normal(2, 4, 5, 6, 3), {"ksize": [1, 2, 3, 2, 1], "strides": [1, 1, 2, 2, 1], "padding": "SAME"}
    want = R.AvgPool3D(input=x, **attrs).numpy().transpose([0, 4, 1, 2, 3])
    turned = {k: [v[i] for i in (0, 4, 1, 2, 3)] if k != "padding" else v for k, v in attrs.items()}
    ours = evaluate(lambda a: R.AvgPool3D(input=a, data_format="NCDHW", **turned), x.transpose([0, 4, 1, 2, 3]))
    for outputs in ours:
        np.testing.assert_allclose(outputs[0], want, rtol=1e-5, atol=1e-5)
