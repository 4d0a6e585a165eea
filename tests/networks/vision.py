"""Networks on images that are not in keras.applications: transformers, decoders, generators, detectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.networks.network import Network, classification, classifier, squares, wide

layers = tf.keras.layers
BATCH = 4


def images(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random((BATCH, *shape), dtype=np.float32)


class _Tokens(layers.Layer):
    """A learned class token in front of the patches, and learned positions added."""

    def build(self, shape: Any) -> None:
        _, count, width = shape
        self.token = self.add_weight("token", (1, 1, width), initializer="random_normal")
        self.positions = self.add_weight("positions", (1, count + 1, width), initializer="random_normal")

    def call(self, patches: Any) -> Any:
        token = tf.repeat(tf.cast(self.token, patches.dtype), tf.shape(patches)[0], axis=0)
        return tf.concat([token, patches], 1) + tf.cast(self.positions, patches.dtype)


def transformer_block(x: Any, heads: int, width: int, causal: bool = False, mask: Any = None) -> Any:
    """Attention and a two-layer perceptron, each behind a normalization and with a residual."""
    y = layers.LayerNormalization(epsilon=1e-6)(x)
    attention = layers.MultiHeadAttention(heads, width // heads, dropout=0.1)
    x = x + attention(y, y, attention_mask=mask, use_causal_mask=causal)
    y = layers.LayerNormalization(epsilon=1e-6)(x)
    y = layers.Dense(4 * width, activation="gelu")(y)
    return x + layers.Dropout(0.1)(layers.Dense(width)(y))


def vit() -> Network:
    inputs = layers.Input((32, 32, 3))
    x = layers.Conv2D(64, 8, 8)(inputs)
    x = _Tokens()(layers.Reshape((16, 64))(x))
    for _ in range(2):
        x = transformer_block(x, 4, 64)
    x = layers.LayerNormalization(epsilon=1e-6)(x)[:, 0]
    model = tf.keras.Model(inputs, layers.Dense(10)(x))
    y = classification(np.random.default_rng(1), BATCH, 10)
    return Network(model, images(32, 32, 3), y, classifier, fp32_only=True)


def unet() -> Network:
    """Two levels down, two up with transposed convolutions, skips by concatenation; a class per pixel."""

    def block(x: Any, width: int) -> Any:
        for _ in range(2):
            x = layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
            x = layers.ReLU()(layers.BatchNormalization()(x))
        return x

    inputs = layers.Input((32, 32, 3))
    first = block(inputs, 16)
    second = block(layers.MaxPooling2D()(first), 32)
    x = block(layers.MaxPooling2D()(second), 64)
    x = layers.Conv2DTranspose(32, 2, 2)(x)
    x = block(layers.Concatenate()([x, second]), 32)
    x = layers.Conv2DTranspose(16, 3, 2, padding="same")(x)
    x = block(layers.Concatenate()([x, first]), 16)
    model = tf.keras.Model(inputs, layers.Conv2D(5, 1)(x))
    return Network(model, images(32, 32, 3), classification(np.random.default_rng(1), BATCH, 32, 32, 5), classifier)


def autoencoder() -> Network:
    """Strided convolutions down, resize and convolution up."""
    model = tf.keras.Sequential([
        layers.Input((28, 28, 1)),
        layers.Conv2D(16, 3, 2, padding="same", activation="relu"),
        layers.Conv2D(8, 3, 2, padding="same", activation="relu"),
        layers.Conv2D(8, 3, padding="same", activation="relu"),
        layers.UpSampling2D(),
        layers.Conv2D(16, 3, padding="same", activation="relu"),
        layers.UpSampling2D(interpolation="bilinear"),
        layers.Conv2D(1, 3, padding="same", activation="sigmoid"),
    ])  # fmt: skip
    x = images(28, 28, 1)
    return Network(model, x, x, squares)


class _Sample(layers.Layer):
    """Draws from the distribution with these means and logarithms of variances; adds the divergence as a loss."""

    def call(self, inputs: Any) -> Any:
        mean, log_variance = inputs
        noise = tf.random.normal(tf.shape(mean), seed=3)  # the same draws in every precision
        return mean + tf.exp(log_variance / 2) * tf.cast(noise, mean.dtype)


def variational() -> Network:
    inputs = layers.Input((28, 28, 1))
    x = layers.Conv2D(16, 3, 2, activation="relu", padding="same")(inputs)
    x = layers.Dense(32, activation="relu")(layers.Flatten()(x))
    mean, log_variance = layers.Dense(4)(x), layers.Dense(4)(x)
    x = layers.Dense(7 * 7 * 8, activation="relu")(_Sample()([mean, log_variance]))
    x = layers.Reshape((7, 7, 8))(x)
    x = layers.Conv2DTranspose(16, 3, 2, padding="same", activation="relu")(x)
    x = layers.Conv2DTranspose(1, 3, 2, padding="same")(x)

    def loss(y: Any, outputs: Any) -> Any:
        logits, mean, log_variance = map(wide, outputs)
        error = tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits)
        divergence = -0.5 * (1 + log_variance - tf.square(mean) - tf.exp(log_variance))
        return tf.reduce_mean(tf.reduce_sum(error, [1, 2, 3])) + tf.reduce_mean(tf.reduce_sum(divergence, 1))

    model = tf.keras.Model(inputs, [x, mean, log_variance])
    return Network(model, images(28, 28, 1), images(28, 28, 1), loss, fp32_only=True)


def adversaries() -> Network:
    """A generator of transposed convolutions and a discriminator, each with its loss and optimizer, in one step."""
    code = 16
    generator = tf.keras.Sequential([
        layers.Input((code,)),
        layers.Dense(4 * 4 * 32, use_bias=False),
        layers.BatchNormalization(),
        layers.LeakyReLU(),
        layers.Reshape((4, 4, 32)),
        layers.Conv2DTranspose(32, 5, padding="same", use_bias=False),
        layers.BatchNormalization(),
        layers.LeakyReLU(),
        layers.Conv2DTranspose(16, 5, 2, padding="same", use_bias=False),
        layers.BatchNormalization(),
        layers.LeakyReLU(),
        layers.Conv2DTranspose(3, 5, 2, padding="same", activation="tanh"),
    ])  # fmt: skip
    discriminator = tf.keras.Sequential([
        layers.Input((16, 16, 3)),
        layers.Conv2D(16, 5, 2, padding="same"),
        layers.LeakyReLU(),
        layers.Conv2D(32, 5, 2, padding="same"),
        layers.LeakyReLU(),
        layers.Flatten(),
        layers.Dense(1),
    ])  # fmt: skip
    noise, real = layers.Input((code,)), layers.Input((16, 16, 3))
    model = tf.keras.Model([noise, real], [discriminator(generator(noise)), discriminator(real)])
    codes = np.random.default_rng(1).standard_normal((BATCH, code)).astype(np.float32)

    def loss(y: Any, judged: Any) -> Any:
        """That the fakes pass for real, and that they and the real ones are told apart; y: 1 for each real one."""
        fake, real = map(wide, judged)
        entropy = tf.nn.sigmoid_cross_entropy_with_logits
        fooled = entropy(labels=y, logits=fake)
        apart = entropy(labels=y, logits=real) + entropy(labels=tf.zeros_like(y), logits=fake)
        return tf.reduce_mean(fooled), tf.reduce_mean(apart)

    y = np.ones((BATCH, 1), np.float32)
    players = (generator, discriminator)
    return Network(model, [codes, 2 * images(16, 16, 3) - 1], y, loss, players=players)


def ssd() -> Network:
    """A detector: a residual backbone of basic blocks, boxes and classes from three scales, hard negatives mined."""

    def basic(x: Any, width: int, stride: int = 1) -> Any:
        skip = x
        if stride > 1 or x.shape[-1] != width:
            skip = layers.BatchNormalization()(layers.Conv2D(width, 1, stride, use_bias=False)(x))
        x = layers.Conv2D(width, 3, stride, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
        x = layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
        return layers.ReLU()(layers.BatchNormalization()(x) + skip)

    classes, anchors = 6, 4
    inputs = layers.Input((64, 64, 3))
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(16, 7, 2, padding="same", use_bias=False)(inputs)))
    x = layers.MaxPooling2D(3, 2, padding="same")(x)
    scales = []
    for width, blocks, stride in ((16, 3, 1), (32, 4, 2), (64, 6, 1)):  # the stages of ResNet-34 that SSD keeps
        for block in range(blocks):
            x = basic(x, width, stride if block == 0 else 1)
    for width in (64, 32, 32):
        scales.append(x)
        x = layers.Conv2D(width, 3, 2, padding="same", activation="relu")(x)
    boxes = [layers.Reshape((-1, 4))(layers.Conv2D(4 * anchors, 3, padding="same")(s)) for s in scales]
    logits = [layers.Reshape((-1, classes))(layers.Conv2D(classes * anchors, 3, padding="same")(s)) for s in scales]
    model = tf.keras.Model(inputs, [layers.Concatenate(1)(boxes), layers.Concatenate(1)(logits)])
    count = model.output_shape[0][1]
    numbers = np.random.default_rng(1)
    labels = np.where(numbers.random((BATCH, count)) < 0.1, numbers.integers(1, classes, (BATCH, count)), 0)
    targets = numbers.standard_normal((BATCH, count, 4)).astype(np.float32)

    def loss(y: Any, outputs: Any) -> Any:
        targets, labels = y
        boxes, logits = map(wide, outputs)
        positive = tf.cast(labels > 0, boxes.dtype)
        number = tf.reduce_sum(positive, 1)
        distance = tf.abs(boxes - targets)
        smooth = tf.where(distance < 1, 0.5 * distance * distance, distance - 0.5)
        place = tf.reduce_sum(tf.reduce_sum(smooth, 2) * positive, 1)
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        negative = tf.where(labels > 0, tf.zeros_like(entropy), entropy)
        order = tf.argsort(negative, 1, direction="DESCENDING", stable=True)
        rank = tf.argsort(order, 1, stable=True)
        hard = tf.cast(tf.cast(rank, number.dtype) < 3 * number[:, None], number.dtype)
        kind = tf.reduce_sum(entropy * tf.minimum(positive + hard, 1.0), 1)
        return tf.reduce_mean((place + kind) / tf.maximum(number, 1.0))

    return Network(model, images(64, 64, 3), (targets, labels), loss)


def volumes() -> Network:
    """Three-dimensional convolutions, pooling, transposed convolution."""
    inputs = layers.Input((8, 16, 16, 1))
    x = layers.Conv3D(8, 3, padding="same", activation="relu")(inputs)
    x = layers.Conv3D(16, 3, 2, padding="same", activation="relu")(x)
    x = layers.MaxPooling3D()(x)
    x = layers.Conv3DTranspose(8, 2, 2, activation="relu")(x)
    model = tf.keras.Model(inputs, layers.Dense(3)(layers.GlobalAveragePooling3D()(x)))
    y = classification(np.random.default_rng(1), BATCH, 3)
    return Network(model, images(8, 16, 16, 1), y, classifier, fp32_only=True)


NETWORKS = {
    "vit": vit,
    "unet": unet,
    "autoencoder": autoencoder,
    "vae": variational,
    "gan": adversaries,
    "ssd": ssd,
    "conv3d": volumes,
}
