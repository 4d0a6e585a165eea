"""The networks whose published throughput predictions are held against, each built as Habana's references train it.

They are Keras models in fp32 without weights from anywhere; how they are trained (optimizer, loss) is compiled in. A
row of `published.csv` says with what batch, and on how many cards. Sizes are those of the papers. Transformers are in
`transformers.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

layers = tf.keras.layers
Inputs = tuple[Any, ...]


@dataclass(frozen=True)
class Network:
    """build: makes the compiled model. inputs: the specs of x and y for a batch of so many examples."""

    build: Callable[[], tf.keras.Model]
    inputs: Callable[[int], Inputs]


def _momentum() -> Any:
    return tf.keras.optimizers.legacy.SGD(0.1, momentum=0.9)


def _classifier(model: tf.keras.Model) -> tf.keras.Model:
    model.compile(_momentum(), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def _images(side: int) -> Callable[[int], Inputs]:
    return lambda batch: (tf.TensorSpec((batch, side, side, 3)), tf.TensorSpec((batch,), tf.int32))


def _conv(x: Any, width: int, kernel: int, stride: int = 1, groups: int = 1, activate: bool = True) -> Any:
    x = layers.Conv2D(width, kernel, stride, "same", use_bias=False, groups=groups)(x)
    x = layers.BatchNormalization()(x)
    return layers.ReLU()(x) if activate else x


def _stem(side: int) -> tuple[Any, Any]:
    inputs = layers.Input((side, side, 3))
    return inputs, layers.MaxPooling2D(3, 2, "same")(_conv(inputs, 64, 7, 2))


def _bottlenecks(counts: tuple[int, ...], width: int, groups: int) -> tf.keras.Model:
    """ResNet with bottlenecks, version 1.5: the stride is in the 3x3 convolution. width: of the first inner layers."""
    inputs, x = _stem(224)
    for stage, count in enumerate(counts):
        inner, outer = width << stage, 256 << stage
        for block in range(count):
            stride = 2 if stage and not block else 1
            short = x if block else _conv(x, outer, 1, stride, activate=False)
            x = _conv(_conv(x, inner, 1), inner, 3, stride, groups)
            x = layers.ReLU()(layers.Add()([_conv(x, outer, 1, activate=False), short]))
    x = layers.GlobalAveragePooling2D()(x)
    return _classifier(tf.keras.Model(inputs, layers.Dense(1000)(x)))


def resnet50() -> tf.keras.Model:
    return _bottlenecks((3, 4, 6, 3), 64, 1)


def resnext101() -> tf.keras.Model:
    """32 groups of 4 channels in the first stage."""
    return _bottlenecks((3, 4, 23, 3), 128, 32)


def ssd_resnet34() -> tf.keras.Model:
    """MLPerf's single-shot detector on 300 pixels: ResNet34 without its last stage, the fourth without stride, six
    feature maps, 8,732 boxes, 81 classes. The loss takes boxes that were matched to the truth already, in 4 numbers,
    and a class for each: matching is work of the input pipeline."""
    inputs, x = _stem(300)
    for stage, count in enumerate((3, 4, 6)):
        for block in range(count):
            stride = 2 if stage == 1 and not block else 1
            width = 64 << stage
            short = x if block or not stage else _conv(x, width, 1, stride, activate=False)
            y = _conv(_conv(x, width, 3, stride), width, 3, activate=False)
            x = layers.ReLU()(layers.Add()([y, short]))
    maps = [x]
    for middle, width, stride, padding in (
        (256, 512, 2, "same"), (256, 512, 2, "same"), (128, 256, 2, "same"), (128, 256, 1, "valid"),
        (128, 256, 1, "valid"),
    ):  # fmt: skip
        x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(middle, 1, use_bias=False)(x)))
        x = layers.Conv2D(width, 3, stride, padding, use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
        maps.append(x)
    boxes, classes = [], []
    for x, anchors in zip(maps, (4, 6, 6, 6, 4, 4), strict=True):
        boxes.append(layers.Reshape((-1, 4))(layers.Conv2D(anchors * 4, 3, padding="same")(x)))
        classes.append(layers.Reshape((-1, 81))(layers.Conv2D(anchors * 81, 3, padding="same")(x)))
    out = layers.Concatenate(2)([layers.Concatenate(1)(boxes), layers.Concatenate(1)(classes)])

    def loss(truth: Any, y: Any) -> Any:
        there = tf.cast(truth[..., 4] > 0, tf.float32)
        away = tf.losses.huber(truth[..., :4], y[..., :4])
        kind = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(truth[..., 4], tf.int32), y[..., 4:])
        return tf.reduce_sum(away * there + kind, 1) / tf.reduce_sum(there, 1)

    model = tf.keras.Model(inputs, out)
    model.compile(_momentum(), loss)
    return model


def _detection(batch: int) -> Inputs:
    return tf.TensorSpec((batch, 300, 300, 3)), tf.TensorSpec((batch, 8732, 5))


def efficientnet_b0() -> tf.keras.Model:
    return _classifier(tf.keras.applications.EfficientNetB0(weights=None, classifier_activation=None))


def unet() -> tf.keras.Model:
    """U-Net as in its paper, 64 channels first, on 512 pixels of one channel with padding; two classes per pixel."""

    def block(x: Any, width: int) -> Any:
        for _ in range(2):
            x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
        return x

    inputs = layers.Input((512, 512, 1))
    x, skips = inputs, []
    for width in (64, 128, 256, 512):
        skips.append(block(x, width))
        x = layers.MaxPooling2D()(skips[-1])
    x = block(x, 1024)
    for width, skip in zip((512, 256, 128, 64), reversed(skips), strict=True):
        x = block(layers.Concatenate()([layers.Conv2DTranspose(width, 2, 2)(x), skip]), width)
    model = tf.keras.Model(inputs, layers.Conv2D(2, 1)(x))
    model.compile(tf.keras.optimizers.legacy.Adam(1e-4), tf.keras.losses.SparseCategoricalCrossentropy(True))
    return model


def _masks(batch: int) -> Inputs:
    return tf.TensorSpec((batch, 512, 512, 1)), tf.TensorSpec((batch, 512, 512), tf.int32)


class _InstanceNorm(layers.Layer):
    def build(self, shape: Any) -> None:
        self.scale = self.add_weight("scale", (shape[-1],), initializer="ones")
        self.shift = self.add_weight("shift", (shape[-1],), initializer="zeros")

    def call(self, x: Any) -> Any:
        mean, variance = tf.nn.moments(x, [1, 2, 3], keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + 1e-5) * self.scale + self.shift


def _volumes(channels: int, classes: int, slope: float) -> Network:
    """U-Net on volumes of 128 x 128 x 128: two convolutions at each of six sizes, 32 to 320 channels wide."""
    widths = (32, 64, 128, 256, 320, 320)

    def block(x: Any, width: int, stride: int = 1) -> Any:
        for step in (stride, 1):
            x = _InstanceNorm()(layers.Conv3D(width, 3, step, "same", use_bias=False)(x))
            x = layers.LeakyReLU(slope)(x) if slope else layers.ReLU()(x)
        return x

    def build() -> tf.keras.Model:
        x = inputs = layers.Input((128, 128, 128, channels))
        skips = []
        for width in widths:
            x = block(x, width, 2 if skips else 1)
            skips.append(x)
        for width, skip in zip(widths[-2::-1], skips[-2::-1], strict=True):
            x = layers.Conv3DTranspose(width, 2, 2, use_bias=False)(x)
            x = block(layers.Concatenate()([x, skip]), width)
        return _classifier(tf.keras.Model(inputs, layers.Conv3D(classes, 1)(x)))

    def specs(batch: int) -> Inputs:
        whole = (batch, 128, 128, 128)
        return tf.TensorSpec((*whole, channels)), tf.TensorSpec(whole, tf.int32)

    return Network(build, specs)


NETWORKS = {
    "ResNet50": Network(resnet50, _images(224)),
    "ResNeXt101-32x4d": Network(resnext101, _images(224)),
    "SSD-ResNet34": Network(ssd_resnet34, _detection),
    "EfficientNet-B0": Network(efficientnet_b0, _images(224)),
    "U-Net": Network(unet, _masks),
    "U-Net3D": _volumes(1, 3, 0.0),
    "nnU-Net": _volumes(4, 4, 0.01),
}
"""U-Net3D is MLPerf's, nnU-Net NVIDIA's for tumours of the brain (four kinds of scans, three kinds of tissue)."""
