"""Networks on sequences of tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.networks.network import Network, classification, classifier, wide
from tests.networks.vision import transformer_block

layers = tf.keras.layers
BATCH, LENGTH, WORDS, WIDTH = 4, 24, 100, 32


def tokens() -> np.ndarray:
    """Sentences of different lengths, padded with 0."""
    numbers = np.random.default_rng(0)
    lengths = numbers.integers(LENGTH // 2, LENGTH + 1, (BATCH, 1))
    return np.where(np.arange(LENGTH) < lengths, numbers.integers(1, WORDS, (BATCH, LENGTH)), 0)


class _Positions(layers.Layer):
    """Learned positions, added."""

    def build(self, shape: Any) -> None:
        self.positions = self.add_weight("positions", (1, *shape[1:]), initializer="random_normal")

    def call(self, x: Any) -> Any:
        return x + tf.cast(self.positions, x.dtype)


def bert() -> Network:
    """An encoder that fills in masked tokens; logits through the transposed embedding."""
    inputs = layers.Input((LENGTH,), dtype="int64")
    embedding = layers.Embedding(WORDS, WIDTH)
    x = _Positions()(embedding(inputs))
    x = layers.Dropout(0.1)(layers.LayerNormalization(epsilon=1e-12)(x))
    mask = layers.Lambda(lambda t: tf.cast(t[:, None, :] != 0, tf.bool))(inputs)
    for _ in range(2):
        x = transformer_block(x, 4, WIDTH, mask=mask)
    x = layers.LayerNormalization(epsilon=1e-12)(layers.Dense(WIDTH, activation="gelu")(x))
    logits = layers.Dense(WORDS)(x)
    x, numbers = tokens(), np.random.default_rng(1)
    chosen = (numbers.random(x.shape) < 0.15) & (x > 0)

    def loss(y: Any, logits: Any) -> Any:
        words, chosen = y
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(words, wide(logits))
        return tf.reduce_sum(losses * chosen) / tf.reduce_sum(chosen)

    y = (x, chosen.astype(np.float32))
    return Network(tf.keras.Model(inputs, logits), np.where(chosen, 1, x), y, loss, fp32_only=True)


def decoder() -> Network:
    """Causal attention; every token predicts the next."""
    inputs = layers.Input((LENGTH,), dtype="int64")
    x = _Positions()(layers.Embedding(WORDS, WIDTH)(inputs))
    for _ in range(2):
        x = transformer_block(x, 4, WIDTH, causal=True)
    logits = layers.Dense(WORDS)(layers.LayerNormalization()(x))
    x = tokens()
    return Network(tf.keras.Model(inputs, logits), x, np.roll(x, -1, 1), classifier, fp32_only=True)


def _recurrent(layer: Any) -> Network:
    model = tf.keras.Sequential([
        layers.Embedding(WORDS, WIDTH, mask_zero=True),
        layers.Bidirectional(layer(16, return_sequences=True)),
        layer(16),
        layers.Dense(2),
    ])  # fmt: skip
    model.build((None, LENGTH))
    return Network(model, tokens(), classification(np.random.default_rng(1), BATCH, 2), classifier)


def convolutions() -> Network:
    """One-dimensional convolutions: causal and dilated, separable, pooling."""
    model = tf.keras.Sequential([
        layers.Embedding(WORDS, WIDTH),
        layers.Conv1D(16, 3, padding="causal", dilation_rate=2, activation="relu"),
        layers.SeparableConv1D(16, 3, activation="relu"),
        layers.MaxPooling1D(),
        layers.Conv1DTranspose(8, 3, 2, activation="relu"),
        layers.GlobalMaxPooling1D(),
        layers.Dense(2),
    ])  # fmt: skip
    model.build((None, LENGTH))
    return Network(model, tokens(), classification(np.random.default_rng(1), BATCH, 2), classifier)


NETWORKS = {
    "bert": bert,
    "decoder": decoder,
    "lstm": lambda: _recurrent(layers.LSTM),
    "gru": lambda: _recurrent(layers.GRU),
    "conv1d": convolutions,
}
