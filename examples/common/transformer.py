"""Attention and the block that vision and language models are made of.

Written with matrix products, not with einsum: those are what a card's matrix engine and `TF_BF16_CONVERSION=basic`
know.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

layers = tf.keras.layers


class Attention(layers.Layer):
    """Scaled dot-product attention with several heads. [batch, time, width] -> the same."""

    def __init__(self, width: int, heads: int, name: str | None = None) -> None:
        super().__init__(name=name)
        if width % heads:
            raise ValueError(f"{heads} heads do not divide a width of {width}")
        self.heads, self.depth = heads, width // heads
        self.query = layers.Dense(width, name="query")
        self.key = layers.Dense(width, name="key")
        self.value = layers.Dense(width, name="value")
        self.out = layers.Dense(width, name="out")

    def split(self, x: Any) -> Any:
        """[batch, time, width] -> [batch, heads, time, depth]"""
        shape = tf.shape(x)
        return tf.transpose(tf.reshape(x, [shape[0], shape[1], self.heads, self.depth]), [0, 2, 1, 3])

    def attend(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        """Split query, key and value -> [batch, time, width]. mask: bool, True where a key may be looked at."""
        scores = tf.matmul(query, key, transpose_b=True) * self.depth**-0.5
        if mask is not None:
            scores = tf.where(mask, scores, -1e9)
        mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), [0, 2, 1, 3])
        shape = tf.shape(mixed)
        return self.out(tf.reshape(mixed, [shape[0], shape[1], self.heads * self.depth]))

    def call(self, x: Any, mask: Any = None) -> Any:
        return self.attend(self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x)), mask)


class Block(layers.Layer):
    """Attention, then two dense layers, each after a normalisation and beside a residual connection."""

    def __init__(self, width: int, heads: int, hidden: int, name: str | None = None) -> None:
        super().__init__(name=name)
        self.norm_1 = layers.LayerNormalization(epsilon=1e-6, name="norm_1")
        self.attention = Attention(width, heads, name="attention")
        self.norm_2 = layers.LayerNormalization(epsilon=1e-6, name="norm_2")
        self.wide = layers.Dense(hidden, name="wide")
        self.narrow = layers.Dense(width, name="narrow")

    def feed(self, x: Any) -> Any:
        """The dense half of the block."""
        return x + self.narrow(tf.nn.gelu(self.wide(self.norm_2(x)), approximate=True))

    def call(self, x: Any, mask: Any = None) -> Any:
        """x: [batch, time, width]. mask: bool, True where a key may be looked at."""
        return self.feed(x + self.attention(self.norm_1(x), mask=mask))


def causal(length: int) -> Any:
    """bool [length, length]: each position looks at itself and what is before it."""
    at = tf.range(length)
    return at[:, None] >= at[None, :]
