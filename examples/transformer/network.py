"""The Transformer (arXiv 1706.03762), with the normalisations before each part, as it is trained nowadays."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from common.transformer import Block, CrossBlock, causal

layers = tf.keras.layers


def waves(length: int, width: int) -> np.ndarray:
    """The places' sines and cosines, float32 [length, width]."""
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


class Transformer(tf.keras.Model):
    """Source words [batch, time] and target words [batch, time] -> logits of the target's next ones.

    One table reads the words of both languages and tells those of the target. padding: the number of the word that
    fills up sources, which nobody looks at; targets look back only, so what fills them up at the end is not seen.
    """

    def __init__(self, words: int, padding: int, width: int, depth: int, heads: int, hidden: int, length: int) -> None:
        super().__init__()
        self.padding, self.width, self.heads, self.length = padding, width, heads, length
        self.where = tf.constant(waves(length + 1, width))
        normal = tf.keras.initializers.RandomNormal(stddev=width**-0.5)
        self.words = layers.Embedding(words, width, normal, name="words")
        self.encoders = [Block(width, heads, hidden, name=f"encoder_{k}") for k in range(depth)]
        self.decoders = [CrossBlock(width, heads, hidden, name=f"decoder_{k}") for k in range(depth)]
        self.encoded = layers.LayerNormalization(epsilon=1e-6, name="encoded")
        self.decoded = layers.LayerNormalization(epsilon=1e-6, name="decoded")

    def embed(self, words: Any) -> Any:
        return self.words(words) * self.width**0.5

    def encode(self, source: Any) -> tuple[Any, Any]:
        """What the decoder looks at, [batch, time, width], and where it may."""
        mask = (source != self.padding)[:, None, None, :]
        x = self.embed(source) + self.where[: source.shape[1]]
        for block in self.encoders:
            x = block(x, mask=mask)
        return self.encoded(x), mask

    def tell(self, x: Any) -> Any:
        """[batch, time, width] -> logits [batch, time, words]"""
        table = tf.convert_to_tensor(self.words.embeddings)
        logits = tf.matmul(tf.reshape(self.decoded(x), [-1, self.width]), table, transpose_b=True)
        return tf.reshape(logits, [-1, x.shape[1], table.shape[0]])

    def call(self, source: Any, target: Any) -> Any:
        memory, mask = self.encode(source)
        time = target.shape[1]
        x = self.embed(target) + self.where[:time]
        for block in self.decoders:
            x = block(x, mask=causal(time), memory=memory, memory_mask=mask)
        return self.tell(x)

    def empty(self, rows: int) -> Any:
        """Keys and values of no words: float32 [rows, depth, 2, heads, length, width of a head]."""
        return tf.zeros([rows, len(self.decoders), 2, self.heads, self.length, self.width // self.heads])

    def one(self, words: Any, at: Any, kept: Any, memories: list[tuple[Any, Any]], mask: Any) -> tuple[Any, Any]:
        """The logits [rows, words] after one more word [rows] at a place, and the keys and values with it.

        memories: for each decoder, as `remember` gives them, rows of them.
        """
        x = self.embed(words)[:, None] + tf.gather(self.where, at)
        new = []
        for k, block in enumerate(self.decoders):
            x, keys, values = block.one(x, at, kept[:, k, 0], kept[:, k, 1], memories[k], mask)
            new.append(tf.stack([keys, values], axis=1))
        return self.tell(x)[:, 0], tf.stack(new, axis=1)

    def remember(self, memory: Any) -> list[tuple[Any, Any]]:
        """Keys and values of what the encoder made, for each decoder: computed once for all words."""
        return [block.cross.remember(memory) for block in self.decoders]
