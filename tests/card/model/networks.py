"""The networks whose published throughput predictions are held against, each built as Habana's references train it.

They are Keras models in fp32 without weights from anywhere; how they are trained (optimizer, loss) is compiled in. A
`Published` row says with what batch, and on how many cards. Sizes are those of the papers; the sources of figures are
in `published.py`.
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


class _Added(layers.Layer):
    """A learned tensor added to all examples."""

    def build(self, shape: Any) -> None:
        self.added = self.add_weight("added", shape[1:], initializer="zeros")

    def call(self, x: Any) -> Any:
        return x + tf.cast(self.added, x.dtype)


def _attention(x: Any, heads: int, width: int, dropout: float) -> Any:
    return layers.MultiHeadAttention(heads, width // heads, dropout=dropout)(x, x)


def _vit(side: int) -> tf.keras.Model:
    """ViT-B/16: 12 layers of 768, 12 heads, normalization before; the classes are read from the mean."""
    inputs = layers.Input((side, side, 3))
    x = layers.Reshape(((side // 16) ** 2, 768))(layers.Conv2D(768, 16, 16)(inputs))
    x = layers.Dropout(0.1)(_Added()(layers.ZeroPadding1D((1, 0))(x)))
    for _ in range(12):
        y = _attention(layers.LayerNormalization(epsilon=1e-6)(x), 12, 768, 0.0)
        x = layers.Add()([x, layers.Dropout(0.1)(y)])
        y = layers.Dense(3072, activation="gelu")(layers.LayerNormalization(epsilon=1e-6)(x))
        y = layers.Dense(768)(layers.Dropout(0.1)(y))
        x = layers.Add()([x, layers.Dropout(0.1)(y)])
    x = layers.LayerNormalization(epsilon=1e-6)(x)[:, 0]
    return _classifier(tf.keras.Model(inputs, layers.Dense(1000)(x)))


class _Embedding(layers.Layer):
    """Words, segments and positions of BERT; words can be asked for as scores too."""

    def __init__(self, words: int, width: int, length: int) -> None:
        super().__init__()
        self.sizes = words, width, length

    def build(self, shape: Any) -> None:
        words, width, length = self.sizes
        self.words = self.add_weight("words", (words, width), initializer="zeros")
        self.segments = self.add_weight("segments", (2, width), initializer="zeros")
        self.positions = self.add_weight("positions", (length, width), initializer="zeros")

    def call(self, ids: Any) -> Any:
        words, segments = ids
        x = tf.gather(self.words, words) + tf.one_hot(segments, 2) @ self.segments
        return x + self.positions


class _Scores(layers.Layer):
    """Words by their likeness to the embedding's."""

    def __init__(self, embedding: _Embedding) -> None:
        super().__init__()
        self.embedding = embedding

    def build(self, shape: Any) -> None:
        self.bias = self.add_weight("bias", (self.embedding.sizes[0],), initializer="zeros")

    def call(self, x: Any) -> Any:
        y = tf.matmul(tf.reshape(x, (-1, self.embedding.sizes[1])), self.embedding.words, transpose_b=True) + self.bias
        return tf.reshape(y, (-1, x.shape[1], self.embedding.sizes[0]))


class _At(layers.Layer):
    """The rows at some positions."""

    def call(self, x: Any) -> Any:
        rows, at = x
        return tf.gather(rows, at, batch_dims=1)


def _bert_large(length: int, masked: int) -> Callable[[], tf.keras.Model]:
    """BERT-large's pre-training: 24 layers of 1,024, 16 heads, 30,522 words, so many masked words predicted, and
    whether the second sentence follows."""

    def build() -> tf.keras.Model:
        words, segments, mask = (layers.Input((length,), dtype="int32") for _ in range(3))
        at = layers.Input((masked,), dtype="int32")
        embedding = _Embedding(30522, 1024, length)
        x = layers.Dropout(0.1)(layers.LayerNormalization(epsilon=1e-12)(embedding([words, segments])))
        seen = tf.cast(mask, tf.bool)[:, None, :]
        for _ in range(24):
            y = layers.MultiHeadAttention(16, 64, dropout=0.1)(x, x, attention_mask=seen)
            x = layers.LayerNormalization(epsilon=1e-12)(layers.Add()([x, layers.Dropout(0.1)(y)]))
            y = layers.Dropout(0.1)(layers.Dense(1024)(layers.Dense(4096, activation="gelu")(x)))
            x = layers.LayerNormalization(epsilon=1e-12)(layers.Add()([x, y]))
        y = layers.LayerNormalization(epsilon=1e-12)(layers.Dense(1024, activation="gelu")(_At()([x, at])))
        follows = layers.Dense(2)(layers.Dense(1024, activation="tanh")(x[:, 0]))
        model = tf.keras.Model([words, segments, mask, at], [_Scores(embedding)(y), follows])
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf.keras.optimizers.legacy.Adam(1e-4), [loss, loss])
        return model

    return build


def _sentences(length: int, masked: int) -> Callable[[int], Inputs]:
    def specs(batch: int) -> Inputs:
        one = tf.TensorSpec((batch, length), tf.int32)
        words = tf.TensorSpec((batch, masked), tf.int32)
        return (one, one, one, words), (words, tf.TensorSpec((batch,), tf.int32))

    return specs


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


NETWORKS = {
    "ResNet50": Network(resnet50, _images(224)),
    "ResNeXt101-32x4d": Network(resnext101, _images(224)),
    "SSD-ResNet34": Network(ssd_resnet34, _detection),
    "EfficientNet-B0": Network(efficientnet_b0, _images(224)),
    "BERT-large-128": Network(_bert_large(128, 20), _sentences(128, 20)),
    "BERT-large-512": Network(_bert_large(512, 80), _sentences(512, 80)),
    "ViT-B/16-160": Network(lambda: _vit(160), _images(160)),
    "ViT-B/16-224": Network(lambda: _vit(224), _images(224)),
    "U-Net": Network(unet, _masks),
}
