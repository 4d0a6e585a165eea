"""A small convolutional network as one cluster: loss and gradients against stock TensorFlow.

The bound is that of the demo: the loss within 1e-5, every gradient within 1e-5 of its tensor's norm.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from harness import F32, evaluate, reference

SHAPES = {
    "kernel1": (3, 3, 1, 4), "bias1": (4,), "gamma": (4,), "beta": (4,), "kernel2": (3, 3, 4, 6),
    "kernel3": (1, 1, 6, 5), "dense": (20, 10), "bias2": (10,),
}  # fmt: skip


def weights(seed: int = 0) -> list[Any]:
    generator = np.random.default_rng(seed)
    return [
        (generator.normal(size=shape) / np.sqrt(max(np.prod(shape[:-1]), 4))).astype(F32) for shape in SHAPES.values()
    ]


def network(x: Any, labels: Any, seed: Any, *values: Any) -> list[Any]:
    """Logits' loss, the batch statistics, and the gradients of the weights."""
    w = dict(zip(SHAPES, values, strict=True))
    with tf.GradientTape() as tape:
        for v in values:
            tape.watch(v)
        y = tf.nn.bias_add(tf.nn.conv2d(x, w["kernel1"], 1, "VALID"), w["bias1"])
        y, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=y, scale=w["gamma"] + 1, offset=w["beta"], mean=w["beta"] * 0, variance=w["beta"] * 0 + 1,
            epsilon=1e-3, exponential_avg_factor=0.1, is_training=True,
        )  # fmt: skip
        y = tf.nn.relu(tf.nn.max_pool2d(y, 2, 2, "VALID"))
        keep = tf.raw_ops.StatelessRandomUniform(shape=[8, 5, 5, 4], seed=seed, dtype=tf.float32) >= 0.25
        y = tf.where(keep, y * (1 / 0.75), tf.zeros_like(y))
        y = tf.nn.relu(tf.nn.conv2d(y, w["kernel2"], 2, "SAME"))
        y = tf.nn.conv2d(y, w["kernel3"], 2, "SAME")
        logits = tf.matmul(tf.reshape(y, [8, 20]), w["dense"]) + w["bias2"]
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    return [loss, mean, variance, *tape.gradient(loss, list(values))]


@pytest.mark.parametrize("seed", range(3))
def test_loss_and_gradients(seed: int) -> None:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(8, 12, 12, 1)).astype(F32)
    labels, key = generator.integers(0, 10, 8), np.array([seed, 7], np.int64)
    wanted = reference(network, x, labels, key, *weights(seed))
    for got in evaluate(network, x, labels, key, *weights(seed)):
        assert got[0] == pytest.approx(wanted[0], rel=1e-5)
        for name, g, want in zip(["mean", "variance", *SHAPES], got[1:], wanted[1:], strict=True):
            assert g.dtype == want.dtype
            error = np.linalg.norm(g - want)
            # a bias that batch normalization takes out again has gradient 0, computed as a sum that cancels
            assert error <= 1e-5 * max(np.linalg.norm(want), 0.1), name


def test_a_mixed_precision_product_keeps_float32_gradients() -> None:
    """Keras casts weights to bfloat16 at each use: the gradient comes back through the cast."""
    generator = np.random.default_rng(0)
    x, w = generator.normal(size=(8, 16)).astype(F32), generator.normal(size=(16, 4)).astype(F32)

    def fn(x: Any, w: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            tape.watch(w)
            y = tf.matmul(tf.cast(x, tf.bfloat16), tf.cast(w, tf.bfloat16))
            loss = tf.reduce_sum(tf.square(tf.cast(y, tf.float32)))
        return [loss, tape.gradient(loss, w)]

    wanted = reference(fn, x, w)
    for loss, gradient in evaluate(fn, x, w):
        assert loss == pytest.approx(wanted[0], rel=2.0**-7)
        assert gradient.dtype == F32
        assert np.linalg.norm(gradient - wanted[1]) <= 2.0**-7 * np.linalg.norm(wanted[1])
