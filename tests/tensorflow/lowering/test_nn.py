"""Bias and softmax against stock TensorFlow on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from harness import BF16, F32, arrays, check, evaluate, quick, refusal
from hypothesis import given
from hypothesis.extra.numpy import array_shapes
from rounding import check_both

R = tf.raw_ops
MATRICES = array_shapes(min_dims=2, max_dims=4, min_side=1, max_side=4)


@quick
@given(arrays(F32, MATRICES, special=True))
def test_bias_add(x: Any) -> None:
    bias = np.linspace(-1, 2, x.shape[-1], dtype=F32)
    check_both(lambda a, b: R.BiasAdd(value=a, bias=b), x, bias)
    check_both(lambda a, b: R.BiasAddV1(value=a, bias=b), x, bias)
    check_both(lambda a: R.BiasAddGrad(out_backprop=a), np.nan_to_num(x, posinf=1, neginf=1), atol=1e-5)


def test_bias_over_channels_first() -> None:
    x, bias = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(F32), np.arange(3, dtype=F32)
    check_both(lambda a, b: R.BiasAdd(value=a, bias=b, data_format="NCHW"), x, bias)
    check_both(lambda a: R.BiasAddGrad(out_backprop=a, data_format="NCHW"), x, atol=1e-5)


@quick
@given(arrays(F32, MATRICES))
def test_softmax(x: Any) -> None:
    check_both(lambda a: R.Softmax(logits=a), x)
    check_both(lambda a: R.LogSoftmax(logits=a), x, atol=2e-6)


def test_softmax_of_nothing_and_of_infinities() -> None:
    for shape in ((0, 3), (3, 0)):
        check(lambda a: R.Softmax(logits=a), np.zeros(shape, F32))
    x = np.array([[0, -np.inf, 1], [np.inf, 0, 0], [np.nan, 0, 0], [90, -90, 1000], [-np.inf] * 3], F32)
    check(lambda a: R.Softmax(logits=a), x, nan=False)  # TensorFlow's has zeros in rows with a NaN
    check(lambda a: R.LogSoftmax(logits=a), x)
    for dtype in (F32, BF16):
        for (p,) in evaluate(lambda a: R.Softmax(logits=a), x.astype(dtype)):
            np.testing.assert_array_equal(np.isnan(p.astype(F32)).all(axis=1), [False, True, True, False, True])


def test_a_bias_has_one_value_per_channel() -> None:
    for op in (R.BiasAdd, R.BiasAddV1):
        message = refusal(lambda a, b, op=op: op(value=a, bias=b), np.ones((2, 3), F32), np.ones(1, F32))
        assert message.startswith("BiasAdd") and "on shapes [2, 3], [1]: " in message and "3 channels" in message


def test_a_gradient_of_one_axis_has_no_bias() -> None:
    assert "rank 2 or more" in refusal(lambda g: R.BiasAddGrad(out_backprop=g), np.ones(3, F32))
