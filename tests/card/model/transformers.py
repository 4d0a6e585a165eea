"""Transformers whose published throughput predictions are held against; see `networks.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tests.card.model.networks import NETWORKS, Inputs, Network

layers = tf.keras.layers


@tf.custom_gradient
def _dense(table: Any) -> Any:
    """A table whose gradient is a tensor of its size, not rows and their numbers: as PyTorch has it, and as a table has
    that is a product's operand too."""
    return tf.identity(table), tf.convert_to_tensor


class _Words(layers.Layer):
    """Words and positions, and the first of several segments if there are any."""

    def __init__(self, words: int, width: int, length: int, segments: int) -> None:
        super().__init__()
        self.sizes = words, width, length, segments

    def build(self, shape: Any) -> None:
        words, width, length, segments = self.sizes
        self.words = self.add_weight("words", (words, width), initializer="zeros")
        self.positions = self.add_weight("positions", (length, width), initializer="zeros")
        self.segments = self.add_weight("segments", (segments, width), initializer="zeros") if segments else None

    def call(self, ids: Any) -> Any:
        x = tf.gather(_dense(self.words), ids) + self.positions
        return x if self.segments is None else x + self.segments[0]


class _Scores(layers.Layer):
    """Words by their likeness to those of the embedding."""

    def __init__(self, embedding: _Words) -> None:
        super().__init__()
        self.embedding = embedding

    def call(self, x: Any) -> Any:
        words, width, _, _ = self.embedding.sizes
        y = tf.matmul(tf.reshape(x, (-1, width)), self.embedding.words, transpose_b=True)
        return tf.reshape(y, (-1, x.shape[1], words))


class _At(layers.Layer):
    """The rows at some positions."""

    def call(self, x: Any) -> Any:
        return tf.gather(x[0], x[1], batch_dims=1)


class Lamb(tf.keras.optimizers.legacy.Optimizer):
    """LAMB as its paper has it, with the weights' norm over the update's as the rate of each tensor."""

    def __init__(self, rate: float = 1e-4, name: str = "Lamb") -> None:
        super().__init__(name)
        self._set_hyper("learning_rate", rate)

    def _create_slots(self, variables: Any) -> None:
        for variable in variables:
            self.add_slot(variable, "m")
            self.add_slot(variable, "v")

    def _resource_apply_dense(self, grad: Any, var: Any, apply_state: Any = None) -> Any:
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        mean, square = m.assign(0.9 * m + 0.1 * grad), v.assign(0.999 * v + 0.001 * grad * grad)
        update = mean / (tf.sqrt(square) + 1e-6) + 0.01 * var
        rate = self._get_hyper("learning_rate", var.dtype) * tf.norm(var) / tf.norm(update)
        return var.assign_sub(rate * update)


def adam() -> Any:
    """Adam with gradients clipped by their common norm, as Hugging Face's trainer does."""
    return tf.keras.optimizers.legacy.Adam(1e-4, global_clipnorm=1.0)


@dataclass(frozen=True)
class Encoder:
    """depth layers of `width`, `words` known. head: "answers" (two positions), "class", "words" (at every position,
    through a layer first), "next" (the same without that layer, and each position sees those before it), "pretraining"
    (`masked` words, and whether the second sentence follows). first: normalization before each layer, not after it."""

    depth: int
    width: int
    heads: int
    words: int
    length: int
    head: str
    optimizer: Callable[[], Any] = adam
    first: bool = False
    segments: int = 2
    masked: int = 80

    def build(self) -> tf.keras.Model:
        ids, mask = (layers.Input((self.length,), dtype="int32") for _ in range(2))
        at = layers.Input((self.masked,), dtype="int32")
        embedding = _Words(self.words, self.width, self.length, self.segments)
        x = layers.Dropout(0.1)(self._norm(not self.first, embedding(ids)))
        for _ in range(self.depth):
            x = self._layer(x, tf.cast(mask, tf.bool)[:, None, :])
        x = self._norm(self.first, x)
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        if self.head == "pretraining":
            outputs = [self._scores(embedding, _At()([x, at])), self._class(x)]
            model = tf.keras.Model([ids, mask, at], outputs)
            model.compile(self.optimizer(), [loss, loss])
            return model
        outputs = {
            "answers": lambda: layers.Permute((2, 1))(layers.Dense(2)(x)),
            "class": lambda: self._class(layers.Dropout(0.1)(x)),
            "words": lambda: self._scores(embedding, x),
            "next": lambda: _Scores(embedding)(x),
        }[self.head]()
        model = tf.keras.Model([ids, mask], outputs)
        model.compile(self.optimizer(), loss)
        return model

    def _norm(self, wanted: bool, x: Any) -> Any:
        return layers.LayerNormalization(epsilon=1e-6)(x) if wanted else x

    def _layer(self, x: Any, seen: Any) -> Any:
        h = self._norm(self.first, x)
        kept = {"use_causal_mask": True} if self.head == "next" else {"attention_mask": seen}
        y = layers.MultiHeadAttention(self.heads, self.width // self.heads, dropout=0.1)(h, h, **kept)
        x = self._norm(not self.first, layers.Add()([x, layers.Dropout(0.1)(y)]))
        y = layers.Dense(4 * self.width, activation="gelu")(self._norm(self.first, x))
        y = layers.Dropout(0.1)(layers.Dense(self.width)(y))
        return self._norm(not self.first, layers.Add()([x, y]))

    def _scores(self, embedding: _Words, x: Any) -> Any:
        return _Scores(embedding)(self._norm(True, layers.Dense(self.width, activation="gelu")(x)))

    def _class(self, x: Any) -> Any:
        return layers.Dense(2)(layers.Dense(self.width, activation="tanh")(x[:, 0]))

    def inputs(self, batch: int) -> Inputs:
        one, few = tf.TensorSpec((batch, self.length), tf.int32), tf.TensorSpec((batch, self.masked), tf.int32)
        label = tf.TensorSpec((batch,), tf.int32)
        wanted = {"answers": tf.TensorSpec((batch, 2), tf.int32), "class": label, "words": one, "next": one}
        if self.head == "pretraining":
            return (one, one, few), (few, label)
        return (one, one), wanted[self.head]

    def network(self) -> Network:
        return Network(self.build, self.inputs)


class _Added(layers.Layer):
    """A learned tensor added to all examples."""

    def build(self, shape: Any) -> None:
        self.added = self.add_weight("added", shape[1:], initializer="zeros")

    def call(self, x: Any) -> Any:
        return x + tf.cast(self.added, x.dtype)


def _vit(side: int) -> Network:
    """ViT-B/16: 12 layers of 768, 12 heads, normalization before; classes are read from the first position."""

    def build() -> tf.keras.Model:
        inputs = layers.Input((side, side, 3))
        x = layers.Reshape(((side // 16) ** 2, 768))(layers.Conv2D(768, 16, 16)(inputs))
        x = layers.Dropout(0.1)(_Added()(layers.ZeroPadding1D((1, 0))(x)))
        for _ in range(12):
            h = layers.LayerNormalization(epsilon=1e-6)(x)
            y = layers.MultiHeadAttention(12, 64)(h, h)
            x = layers.Add()([x, layers.Dropout(0.1)(y)])
            y = layers.Dense(3072, activation="gelu")(layers.LayerNormalization(epsilon=1e-6)(x))
            y = layers.Dense(768)(layers.Dropout(0.1)(y))
            x = layers.Add()([x, layers.Dropout(0.1)(y)])
        x = layers.LayerNormalization(epsilon=1e-6)(x)[:, 0]
        model = tf.keras.Model(inputs, layers.Dense(1000)(x))
        model.compile(adam(), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model

    return Network(build, lambda batch: (tf.TensorSpec((batch, side, side, 3)), tf.TensorSpec((batch,), tf.int32)))


_LARGE, _BASE = (24, 1024, 16), (12, 768, 12)
BERT, ROBERTA, GPT2 = 30522, 50265, 50257
"""How many words each knows."""

TRANSFORMERS = {
    "BERT-large-128": Encoder(*_LARGE, BERT, 128, "class").network(),
    "BERT-large-384": Encoder(*_LARGE, BERT, 384, "answers").network(),
    "BERT-large-512": Encoder(*_LARGE, BERT, 512, "pretraining", Lamb).network(),
    "BERT-base-128": Encoder(*_BASE, BERT, 128, "class").network(),
    "BERT-base-384": Encoder(*_BASE, BERT, 384, "answers").network(),
    "BERT-base-MLM": Encoder(*_BASE, BERT, 512, "words").network(),
    "RoBERTa-large-384": Encoder(*_LARGE, ROBERTA, 384, "answers").network(),
    "RoBERTa-large-MLM": Encoder(*_LARGE, ROBERTA, 512, "words").network(),
    "RoBERTa-base-384": Encoder(*_BASE, ROBERTA, 384, "answers").network(),
    "RoBERTa-base-MLM": Encoder(*_BASE, ROBERTA, 512, "words").network(),
    "DistilBERT-384": Encoder(6, 768, 12, BERT, 384, "answers", segments=0).network(),
    "GPT-2": Encoder(*_BASE, GPT2, 1024, "next", first=True, segments=0).network(),
    "ViT-B/16-160": _vit(160),
    "ViT-B/16-224": _vit(224),
}

ALL = NETWORKS | TRANSFORMERS
