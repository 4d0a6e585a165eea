"""Swin-T: attention inside windows of 7 x 7, every second time of windows moved by half; see `networks.py`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tests.card.model.networks import Network
from tests.card.model.transformers import adam

layers = tf.keras.layers
WINDOW = 7


class _WindowAttention(layers.Layer):
    """Of images [batch, side, side, width]. shift: pixels that windows are moved by."""

    def __init__(self, heads: int, shift: int) -> None:
        super().__init__()
        self.heads, self.shift = heads, shift

    def build(self, shape: Any) -> None:
        width, places = shape[-1], WINDOW * WINDOW
        self.weights_in = self.add_weight("in", (width, 3 * width))
        self.bias_in = self.add_weight("in_bias", (3 * width,), initializer="zeros")
        self.weights_out = self.add_weight("out", (width, width))
        self.bias_out = self.add_weight("out_bias", (width,), initializer="zeros")
        self.near = self.add_weight("near", (self.heads, places, places), initializer="zeros")
        self.masks = self.add_weight("masks", ((shape[1] // WINDOW) ** 2, 1, places, places), trainable=False)

    def call(self, x: Any) -> Any:
        _, side, _, width = x.shape
        count, places, each = side // WINDOW, WINDOW * WINDOW, width // self.heads
        if self.shift:
            x = tf.roll(x, (-self.shift, -self.shift), (1, 2))
        x = tf.transpose(tf.reshape(x, (-1, count, WINDOW, count, WINDOW, width)), (0, 1, 3, 2, 4, 5))
        x = tf.reshape(tf.matmul(tf.reshape(x, (-1, width)), self.weights_in) + self.bias_in,
                       (-1, places, 3, self.heads, each))  # fmt: skip
        q, k, v = tf.unstack(tf.transpose(x, (2, 0, 3, 1, 4)))
        scores = tf.matmul(q * each**-0.5, k, transpose_b=True) + self.near
        if self.shift:
            scores = tf.reshape(scores, (-1, count * count, self.heads, places, places)) + self.masks
            scores = tf.reshape(scores, (-1, self.heads, places, places))
        y = tf.transpose(tf.matmul(tf.nn.softmax(scores), v), (0, 2, 1, 3))
        y = tf.matmul(tf.reshape(y, (-1, width)), self.weights_out) + self.bias_out
        y = tf.transpose(tf.reshape(y, (-1, count, count, WINDOW, WINDOW, width)), (0, 1, 3, 2, 4, 5))
        y = tf.reshape(y, (-1, side, side, width))
        return tf.roll(y, (self.shift, self.shift), (1, 2)) if self.shift else y


def _norm(x: Any) -> Any:
    return layers.LayerNormalization(epsilon=1e-5)(x)


def _build() -> tf.keras.Model:
    inputs = layers.Input((224, 224, 3))
    x, width, side = _norm(layers.Conv2D(96, 4, 4)(inputs)), 96, 56
    for stage, (depth, heads) in enumerate(((2, 3), (2, 6), (6, 12), (2, 24))):
        if stage:
            side, width = side // 2, 2 * width
            x = layers.Reshape((side, 2, side, 2, width // 2))(x)
            x = layers.Reshape((side, side, 2 * width))(layers.Permute((1, 3, 2, 4, 5))(x))
            x = layers.Dense(width, use_bias=False)(_norm(x))
        for block in range(depth):
            shift = WINDOW // 2 if block % 2 and side > WINDOW else 0
            x = layers.Add()([x, _WindowAttention(heads, shift)(_norm(x))])
            y = layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(_norm(x)))
            x = layers.Add()([x, y])
    x = layers.GlobalAveragePooling2D()(_norm(x))
    model = tf.keras.Model(inputs, layers.Dense(1000)(x))
    model.compile(adam(), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


SWIN_T = Network(_build, lambda batch: (tf.TensorSpec((batch, 224, 224, 3)), tf.TensorSpec((batch,), tf.int32)))
