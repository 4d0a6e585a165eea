"""SSD on a ResNet-34: the network and its loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from boxes import PER_CELL

layers = tf.keras.layers
BLOCKS = {10: (1, 1, 1), 18: (2, 2, 2), 34: (3, 4, 6)}  # ResNet's without the last stage, as in MLPerf's SSD-ResNet34


def network(
    size: int, depth: int, width: int, classes: int, levels: int, normalize: Callable[..., Any]
) -> tuple[Any, list[int], list[Any]]:
    """Images [batch, size, size, 3] -> offsets [batch, boxes, 4] and logits [batch, boxes, classes].

    The third stage keeps the second's resolution. normalize: makes a layer of batch normalisation from its `momentum`,
    `epsilon` and `name`. Gives the grids too, and the backbone's variables: named conv2d, conv2d_1, ... and
    batch_normalization, ... as they follow each other, the convolution of a shortcut before those of its block.
    """
    made = 0

    def convolved(x: Any, filters: int, kernel: int = 3, stride: int = 1, active: bool = True) -> Any:
        nonlocal made
        number = f"_{made}" if made else ""
        made += 1
        x = layers.Conv2D(filters, kernel, stride, padding="same", use_bias=False, kernel_initializer="he_normal",
                          name=f"conv2d{number}")(x)  # fmt: skip
        x = normalize(momentum=0.9, epsilon=1e-5, name=f"batch_normalization{number}")(x)
        return layers.ReLU()(x) if active else x

    def block(x: Any, filters: int, stride: int) -> Any:
        past = x
        if stride > 1 or x.shape[-1] != filters:
            past = convolved(x, filters, kernel=1, stride=stride, active=False)
        return layers.ReLU()(past + convolved(convolved(x, filters, stride=stride), filters, active=False))

    images = layers.Input((size, size, 3))
    x = layers.MaxPooling2D(3, 2, padding="same")(convolved(images, width, kernel=7, stride=2))
    for stage, count in enumerate(BLOCKS[depth]):
        for k in range(count):
            x = block(x, width * 2**stage, stride=2 if stage == 1 and k == 0 else 1)
    backbone = tf.keras.Model(images, x).variables
    maps = [x]
    for _ in range(levels - 1):
        maps.append(convolved(convolved(maps[-1], 2 * width, kernel=1), 4 * width, stride=2))
    offsets, logits = [], []

    def head(level: int, values: int, name: str) -> Any:
        """[batch, boxes of the level, values]"""
        found = layers.Conv2D(PER_CELL * values, 3, padding="same", name=f"{name}_{level}")(maps[level])
        return layers.Reshape((-1, values))(found)

    for level in range(levels):
        offsets.append(head(level, 4, "offsets"))
        logits.append(head(level, classes, "logits"))
    outputs = [layers.Concatenate(axis=1)(offsets), layers.Concatenate(axis=1)(logits)]
    return tf.keras.Model(images, outputs), [int(each.shape[1]) for each in maps], backbone


def cross_entropy(logits: Any, classes: Any) -> Any:
    """[batch, boxes, classes], [batch, boxes] -> [batch, boxes].

    The sum over the classes is a convolution with ones: the matrix engine does it while the vector engine goes on.
    """
    count = logits.shape[-1]
    lowered = logits - tf.stop_gradient(tf.reduce_max(logits, axis=-1, keepdims=True))
    total = tf.nn.conv2d(tf.exp(lowered)[:, :, None, :], tf.ones([1, 1, count, 1]), 1, "VALID")[:, :, 0, 0]
    return tf.math.log(total) - tf.reduce_sum(lowered * tf.one_hot(classes, count), axis=-1)


def loss(offsets: Any, logits: Any, wanted: Any, classes: Any) -> Any:
    """The sum over the pictures of SSD's loss: smooth L1 of the offsets and cross entropy, by the number of matches.

    Of the background the boxes count that are most wrong, three for each match.
    """
    matched = classes > 0
    matches = tf.reduce_sum(tf.cast(matched, tf.float32), axis=1)
    away = tf.abs(offsets - wanted)
    smooth = tf.where(away < 1, 0.5 * away * away, away - 0.5)
    local = tf.reduce_sum(tf.reduce_sum(smooth, axis=-1) * tf.cast(matched, tf.float32), axis=1)
    each = cross_entropy(logits, classes)
    background = tf.stop_gradient(tf.where(matched, 0.0, each))
    ranked = tf.math.top_k(background, k=background.shape[1]).values
    last = tf.clip_by_value(tf.cast(3 * matches, tf.int32) - 1, 0, background.shape[1] - 1)
    least = tf.gather(ranked, last, batch_dims=1)
    counts = matched | ((background >= least[:, None]) & (background > 0))
    sure = tf.reduce_sum(tf.where(counts, each, 0.0), axis=1)
    return tf.reduce_sum((local + sure) / tf.maximum(matches, 1.0))
