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
    """What is trained, on inputs of which shape, in batches of how many.

    words: inputs are tokens below this number, not images. each: every word or pixel of the input has a class.
    """

    build: Callable[[], tf.keras.Model]
    shape: tuple[int, ...]
    batch: int
    classes: int = 10
    words: int = 0
    each: bool = False

    def data(self, replicas: int = 1) -> tf.data.Dataset:
        """Endless batches (inputs, labels) from memory, the same for every device; a batch for so many replicas."""
        numbers = np.random.default_rng(0)
        batch = self.batch * replicas
        count = max(2 * batch, min(EXAMPLES, 16 * batch))
        if self.words:
            x = numbers.integers(1, self.words, (count, *self.shape))
        else:
            x = numbers.random((count, *self.shape), dtype=np.float32)
        places = self.shape if self.words else self.shape[:-1]
        y = numbers.integers(0, self.classes, (count, *places) if self.each else count)
        return tf.data.Dataset.from_tensor_slices((x, y)).batch(batch, drop_remainder=True).cache().repeat()


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


def application(name: str, side: int) -> tf.keras.Model:
    """A network of keras.applications for ten classes."""
    backbone = getattr(tf.keras.applications, name)(
        include_top=False, weights=None, input_shape=(side, side, 3), pooling="avg"
    )
    return tf.keras.Model(backbone.input, layers.Dense(10, dtype="float32")(backbone.output))


class _Positions(layers.Layer):
    """Learned positions, added."""

    def build(self, shape: tuple[int, ...]) -> None:
        self.positions = self.add_weight("positions", (1, *shape[1:]), initializer="random_normal")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + tf.cast(self.positions, x.dtype)


def _block(x: tf.Tensor, heads: int, width: int) -> tf.Tensor:
    """Attention and a two-layer perceptron, each behind a normalization and with a residual."""
    y = layers.LayerNormalization(epsilon=1e-6)(x)
    x = x + layers.Dropout(0.1)(layers.MultiHeadAttention(heads, width // heads)(y, y))
    y = layers.LayerNormalization(epsilon=1e-6)(x)
    y = layers.Dense(4 * width, activation="gelu")(y)
    return x + layers.Dropout(0.1)(layers.Dense(width)(y))


def vit() -> tf.keras.Model:
    """160x160 in patches of 16, width 384, 6 layers, 6 heads."""
    inputs = layers.Input((160, 160, 3))
    x = layers.Reshape((100, 384))(layers.Conv2D(384, 16, 16)(inputs))
    x = _Positions()(x)
    for _ in range(6):
        x = _block(x, 6, 384)
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization(epsilon=1e-6)(x))
    return tf.keras.Model(inputs, layers.Dense(10, dtype="float32")(x))


WORDS = 8000


def bert() -> tf.keras.Model:
    """An encoder of 4 layers, width 256, over 128 tokens, that says a word for each."""
    inputs = layers.Input((128,), dtype="int64")
    x = _Positions()(layers.Embedding(WORDS, 256)(inputs))
    for _ in range(4):
        x = _block(x, 4, 256)
    x = layers.LayerNormalization(epsilon=1e-6)(x)
    return tf.keras.Model(inputs, layers.Activation("linear", dtype="float32")(layers.Dense(WORDS)(x)))


def lstm() -> tf.keras.Model:
    """Two layers of 128 over 64 tokens."""
    return _sequential(
        layers.Input((64,), dtype="int64"),
        layers.Embedding(WORDS, 128),
        layers.LSTM(128, return_sequences=True),
        layers.LSTM(128),
        layers.Dense(10),
    )


def gru() -> tf.keras.Model:
    """Two layers of 128 over 64 tokens."""
    return _sequential(
        layers.Input((64,), dtype="int64"),
        layers.Embedding(WORDS, 128),
        layers.GRU(128, return_sequences=True),
        layers.GRU(128),
        layers.Dense(10),
    )


def unet() -> tf.keras.Model:
    """Three levels of 32 to 128 channels on 96x96, a class for every pixel."""
    inputs = layers.Input((96, 96, 3))

    def pair(x: tf.Tensor, width: int) -> tf.Tensor:
        for _ in range(2):
            x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(width, 3, padding="same")(x)))
        return x

    x, passed = inputs, []
    for width in (32, 64):
        x = pair(x, width)
        passed.append(x)
        x = layers.MaxPooling2D()(x)
    x = pair(x, 128)
    for width in (64, 32):
        x = layers.Conv2DTranspose(width, 2, strides=2)(x)
        x = pair(layers.Concatenate()([passed.pop(), x]), width)
    return tf.keras.Model(inputs, layers.Activation("linear", dtype="float32")(layers.Conv2D(10, 1)(x)))


def _decoder(length: int) -> Callable[[], tf.keras.Model]:
    def build() -> tf.keras.Model:
        """Two layers of causal attention, width 256, that say the next word."""
        inputs = layers.Input((length,), dtype="int64")
        x = _Positions()(layers.Embedding(1000, 256)(inputs))
        for _ in range(2):
            y = layers.LayerNormalization(epsilon=1e-6)(x)
            x = x + layers.MultiHeadAttention(4, 64)(y, y, use_causal_mask=True)
            y = layers.LayerNormalization(epsilon=1e-6)(x)
            x = x + layers.Dense(256)(layers.Dense(1024, activation="gelu")(y))
        return tf.keras.Model(inputs, layers.Activation("linear", dtype="float32")(layers.Dense(1000)(x)))

    return build


MODELS = {
    "mlp": Benchmark(mlp, (784,), 128),
    "lenet": Benchmark(lenet, (28, 28, 1), 64),
    "resnet50": Benchmark(lambda: application("ResNet50", 160), (160, 160, 3), 16),
    "mobilenetv2": Benchmark(lambda: application("MobileNetV2", 160), (160, 160, 3), 16),
    "vit": Benchmark(vit, (160, 160, 3), 16),
    "bert": Benchmark(bert, (128,), 16, classes=WORDS, words=WORDS, each=True),
    "lstm": Benchmark(lstm, (64,), 32, words=WORDS),
    "gru": Benchmark(gru, (64,), 32, words=WORDS),
    "unet": Benchmark(unet, (96, 96, 3), 8, each=True),
    "convnext": Benchmark(lambda: application("ConvNeXtTiny", 96), (96, 96, 3), 8),
    "efficientnet": Benchmark(lambda: application("EfficientNetB0", 128), (128, 128, 3), 16),
    "decoder512": Benchmark(_decoder(512), (512,), 4, classes=1000, words=1000, each=True),
    "decoder2048": Benchmark(_decoder(2048), (2048,), 1, classes=1000, words=1000, each=True),
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
