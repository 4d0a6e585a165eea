"""The models that are timed, built the same way for every device.

A model here is a function from nothing to a compiled Keras model's parts: layers with the batch of random data they
train on. They follow the Keras policy of the process, so mixed bf16 is a setting of the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

layers = tf.keras.layers

EXAMPLES = 2048  # enough that batches differ, small enough that the data costs nothing


@dataclass(frozen=True)
class Benchmark:
    """What is trained, on images of which shape, in batches of how many."""

    build: Callable[[], tf.keras.Model]
    shape: tuple[int, ...]
    batch: int

    def data(self) -> tf.data.Dataset:
        """Endless batches (images, labels) from memory, the same for every device."""
        numbers = np.random.default_rng(0)
        x = numbers.random((EXAMPLES, *self.shape), dtype=np.float32)
        y = numbers.integers(0, 10, EXAMPLES)
        return tf.data.Dataset.from_tensor_slices((x, y)).batch(self.batch, drop_remainder=True).cache().repeat()


def _sequential(*parts: tf.keras.layers.Layer) -> tf.keras.Model:
    """The layers in a row; logits leave in fp32 under every policy."""
    return tf.keras.Sequential([*parts, layers.Activation("linear", dtype="float32")])


def mlp() -> tf.keras.Model:
    """784-512-512-10."""
    return _sequential(
        layers.Input((784,)),
        layers.Dense(512, activation="relu"),
        layers.Dense(512, activation="relu"),
        layers.Dense(10),
    )


def lenet() -> tf.keras.Model:
    """Two convolutions with pooling, dropout, one dense layer."""
    return _sequential(
        layers.Input((28, 28, 1)),
        layers.Conv2D(32, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dropout(0.5),
        layers.Dense(10),
    )


MODELS = {
    "mlp": Benchmark(mlp, (784,), 128),
    "lenet": Benchmark(lenet, (28, 28, 1), 64),
}


def compiled(model: tf.keras.Model, xla: bool) -> tf.keras.Model:
    """The model with Adam, cross entropy and accuracy."""
    model.compile(
        optimizer=tf.keras.optimizers.Adam(),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=xla,
    )
    return model
