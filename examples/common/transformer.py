"""Attention and the block that vision and language models are made of.

Written with matrix products, not with einsum: those are what a card's matrix engine and `TF_BF16_CONVERSION=basic`
know.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

layers = tf.keras.layers


class Attention(layers.Layer):
    """Scaled dot-product attention with several heads. [batch, time, width] -> the same.

    dropout: the part of the weights that is left out in training.
    """

    def __init__(self, width: int, heads: int, dropout: float = 0.0, name: str | None = None) -> None:
        super().__init__(name=name)
        if width % heads:
            raise ValueError(f"{heads} heads do not divide a width of {width}")
        self.heads, self.depth = heads, width // heads
        self.drop = layers.Dropout(dropout)
        self.query = layers.Dense(width, name="query")
        self.key = layers.Dense(width, name="key")
        self.value = layers.Dense(width, name="value")
        self.out = layers.Dense(width, name="out")

    def split(self, x: Any) -> Any:
        """[batch, time, width] -> [batch, heads, time, depth]"""
        shape = tf.shape(x)
        return tf.transpose(tf.reshape(x, [shape[0], shape[1], self.heads, self.depth]), [0, 2, 1, 3])

    def attend(self, query: Any, key: Any, value: Any, mask: Any = None, training: Any = None) -> Any:
        """Split query, key and value -> [batch, time, width]. mask: bool, True where a key may be looked at."""
        scores = tf.matmul(query, key, transpose_b=True) * self.depth**-0.5
        if mask is not None:
            scores = tf.where(mask, scores, -1e9)
        weights = self.drop(tf.nn.softmax(scores), training=training)
        mixed = tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3])
        shape = tf.shape(mixed)
        return self.out(tf.reshape(mixed, [shape[0], shape[1], self.heads * self.depth]))

    def call(self, x: Any, mask: Any = None, memory: Any = None, training: Any = None) -> Any:
        """memory: [batch, its time, width] to look at instead of x itself."""
        seen = x if memory is None else memory
        return self.attend(self.split(self.query(x)), *self.remember(seen), mask, training)

    def remember(self, x: Any) -> tuple[Any, Any]:
        """The split keys and values of x."""
        return self.split(self.key(x)), self.split(self.value(x))

    def one(self, x: Any, at: Any, keys: Any, values: Any) -> tuple[Any, Any, Any]:
        """One more position: x [batch, 1, width] at a place looks at itself and what is before it.

        keys, values: [batch, heads, length, depth] of the places before. Gives the output, and both with this place.
        """
        places = tf.range(keys.shape[2])
        here = (places == at)[:, None]
        key, value = self.remember(x)
        keys, values = tf.where(here, key, keys), tf.where(here, value, values)
        return self.attend(self.split(self.query(x)), keys, values, places <= at), keys, values


class Block(layers.Layer):
    """Attention, then two dense layers, each after a normalisation and beside a residual connection."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float = 0.0, name: str | None = None) -> None:
        super().__init__(name=name)
        self.norm_1 = layers.LayerNormalization(epsilon=1e-6, name="norm_1")
        self.attention = Attention(width, heads, dropout, name="attention")
        self.norm_2 = layers.LayerNormalization(epsilon=1e-6, name="norm_2")
        self.wide = layers.Dense(hidden, name="wide")
        self.narrow = layers.Dense(width, name="narrow")

    def dense(self, x: Any) -> Any:
        """The two dense layers."""
        return self.narrow(tf.nn.gelu(self.wide(x), approximate=True))

    def feed(self, x: Any) -> Any:
        """The dense half of the block."""
        return x + self.dense(self.norm_2(x))

    def call(self, x: Any, mask: Any = None) -> Any:
        """x: [batch, time, width]. mask: bool, True where a key may be looked at."""
        return self.feed(x + self.attention(self.norm_1(x), mask=mask))


class CrossBlock(Block):
    """The block of a decoder: between its halves it looks at what an encoder made."""

    def __init__(self, width: int, heads: int, hidden: int, name: str | None = None) -> None:
        super().__init__(width, heads, hidden, name=name)
        self.norm_3 = layers.LayerNormalization(epsilon=1e-6, name="norm_3")
        self.cross = Attention(width, heads, name="cross")

    def call(self, x: Any, mask: Any = None, memory: Any = None, memory_mask: Any = None) -> Any:
        """memory: [batch, its time, width]. memory_mask: bool, True where it may be looked at."""
        x = x + self.attention(self.norm_1(x), mask=mask)
        return self.feed(x + self.cross(self.norm_3(x), mask=memory_mask, memory=memory))

    def one(self, x: Any, at: Any, keys: Any, values: Any, memory: Any, memory_mask: Any) -> tuple[Any, Any, Any]:
        """One more position, as Attention.one has it. memory: split keys and values of what the encoder made."""
        mixed, keys, values = self.attention.one(self.norm_1(x), at, keys, values)
        x = x + mixed
        query = self.cross.split(self.cross.query(self.norm_3(x)))
        return self.feed(x + self.cross.attend(query, *memory, memory_mask)), keys, values


def causal(length: int) -> Any:
    """bool [length, length]: each position looks at itself and what is before it."""
    at = tf.range(length)
    return at[:, None] >= at[None, :]
