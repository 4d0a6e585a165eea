"""Kinds of layers and of computations of shape, each with the sizes of its input that vary.

What a kind costs when batch, length or image size changes is measured on these (see `test_kinds.py`); every size is
compared with stock TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tests.device import computations as c

L = tf.keras.layers
Shape = tuple[int, ...]
Forward = c.Forward

BATCHES = (8, 5, 7, 1, 12)
LENGTHS = (9, 14, 11, 6, 23)
HEIGHTS, WIDTHS = (16, 12, 21, 9, 26), (16, 20, 13, 11, 26)


@dataclass(frozen=True)
class Kind:
    """build: makes the layers, then maps a batch to a result. shape: of the input, batch first; ids: below it, if the
    input holds numbers of words. vary: what changes, "batch", "length" (axis 1) or "image" (axes 1 and 2).
    """

    name: str
    build: Callable[[], Forward]
    shape: Shape
    ids: int = 0
    vary: tuple[str, ...] = ("batch",)

    def shapes(self, what: str) -> list[Shape]:
        """The shapes met one after the other when `what` changes."""
        if what == "batch":
            return [(n, *self.shape[1:]) for n in BATCHES]
        if what == "length":
            return [(self.shape[0], n, *self.shape[2:]) for n in LENGTHS]
        return [(self.shape[0], h, w, *self.shape[3:]) for h, w in zip(HEIGHTS, WIDTHS, strict=True)]

    def spec(self, what: str) -> Sequence[int | None]:
        """The shape as a function for all of them is told."""
        free = {"batch": 1, "length": 2, "image": 3}[what]
        return [None] * free + list(self.shape[free:])


def layer(make: Callable[[], Any], **kw: Any) -> Callable[[], Forward]:
    """A layer by itself, in training."""

    def build() -> Forward:
        made = make()
        return lambda x: made(x, **kw)

    return build


def of(forward: Forward) -> Callable[[], Forward]:
    return lambda: forward


BOTH = ("batch", "length")
PICTURE = ("batch", "image")
SEQUENCE, PIXELS, ROW, VOLUME, IDS = (4, 9, 8), (2, 16, 16, 3), (4, 10), (2, 8, 8, 8, 2), (4, 9)

KINDS = (
    Kind("Dense", layer(lambda: L.Dense(6, activation="relu")), SEQUENCE, 0, BOTH),
    Kind("Embedding", layer(lambda: L.Embedding(30, 8)), IDS, 30, BOTH),
    Kind("Conv1D same", layer(lambda: L.Conv1D(6, 3, padding="same")), SEQUENCE, 0, BOTH),
    Kind("Conv1D valid", layer(lambda: L.Conv1D(6, 3)), SEQUENCE, 0, BOTH),
    Kind("Conv1D causal, dilated", layer(lambda: L.Conv1D(6, 3, padding="causal", dilation_rate=2)), SEQUENCE, 0, BOTH),
    Kind("Conv1D strides 2", layer(lambda: L.Conv1D(6, 3, strides=2, padding="same")), SEQUENCE, 0, BOTH),
    Kind("Conv1D strides 2 valid", layer(lambda: L.Conv1D(6, 3, strides=2)), SEQUENCE, 0, BOTH),
    Kind("Conv1DTranspose", layer(lambda: L.Conv1DTranspose(6, 4, strides=2, padding="same")), SEQUENCE, 0, BOTH),
    Kind("DepthwiseConv1D", layer(lambda: L.DepthwiseConv1D(3)), SEQUENCE, 0, BOTH),
    Kind("SeparableConv1D", layer(lambda: L.SeparableConv1D(6, 3)), SEQUENCE, 0, BOTH),
    Kind("Conv2D same", layer(lambda: L.Conv2D(6, 3, padding="same")), PIXELS, 0, PICTURE),
    Kind("Conv2D strides 2", layer(lambda: L.Conv2D(6, 3, strides=2, padding="same")), PIXELS, 0, PICTURE),
    Kind("Conv2D patches", layer(lambda: L.Conv2D(6, 4, strides=4)), PIXELS, 0, PICTURE),
    Kind("Conv2DTranspose", layer(lambda: L.Conv2DTranspose(6, 3, strides=2, padding="same")), PIXELS, 0, PICTURE),
    Kind("DepthwiseConv2D", layer(lambda: L.DepthwiseConv2D(3, padding="same")), PIXELS, 0, PICTURE),
    Kind("SeparableConv2D", layer(lambda: L.SeparableConv2D(6, 3)), PIXELS, 0, PICTURE),
    Kind("Conv3D", layer(lambda: L.Conv3D(4, 3)), VOLUME),
    Kind("MaxPooling1D", layer(lambda: L.MaxPooling1D(2)), SEQUENCE, 0, BOTH),
    Kind("MaxPooling1D overlapping", layer(lambda: L.MaxPooling1D(3, 2, "same")), SEQUENCE, 0, BOTH),
    Kind("AveragePooling1D", layer(lambda: L.AveragePooling1D(2)), SEQUENCE, 0, BOTH),
    Kind("AveragePooling1D same", layer(lambda: L.AveragePooling1D(3, 1, "same")), SEQUENCE, 0, BOTH),
    Kind("MaxPooling2D", layer(lambda: L.MaxPooling2D(2)), PIXELS, 0, PICTURE),
    Kind("MaxPooling2D overlapping", layer(lambda: L.MaxPooling2D(3, 2, "same")), PIXELS, 0, PICTURE),
    Kind("AveragePooling2D", layer(lambda: L.AveragePooling2D(2)), PIXELS, 0, PICTURE),
    Kind("MaxPooling3D", layer(lambda: L.MaxPooling3D(2)), VOLUME),
    Kind("GlobalAveragePooling1D", layer(lambda: L.GlobalAveragePooling1D()), SEQUENCE, 0, BOTH),
    Kind("GlobalMaxPooling1D", layer(lambda: L.GlobalMaxPooling1D()), SEQUENCE, 0, BOTH),
    Kind("GlobalAveragePooling2D", layer(lambda: L.GlobalAveragePooling2D()), PIXELS, 0, PICTURE),
    Kind("BatchNormalization", layer(lambda: L.BatchNormalization(), training=True), PIXELS, 0, PICTURE),
    Kind("BatchNormalization of sequences", layer(lambda: L.BatchNormalization(), training=True), SEQUENCE, 0, BOTH),
    Kind("LayerNormalization", layer(lambda: L.LayerNormalization()), SEQUENCE, 0, BOTH),
    Kind("GroupNormalization", layer(lambda: L.GroupNormalization(3)), PIXELS, 0, PICTURE),
    Kind("Concatenate", c.merged, (4, 8)),
    Kind("Concatenate of sequences", c.merged, SEQUENCE, 0, BOTH),
    Kind("SimpleRNN", layer(lambda: L.SimpleRNN(5, return_sequences=True)), SEQUENCE, 0, BOTH),
    Kind("LSTM", layer(lambda: L.LSTM(5)), SEQUENCE, 0, BOTH),
    Kind("LSTM with a mask", c.masked_rnn, IDS, 30, BOTH),
    Kind("GRU", layer(lambda: L.GRU(5, return_sequences=True)), SEQUENCE, 0, BOTH),
    Kind("Bidirectional LSTM", layer(lambda: L.Bidirectional(L.LSTM(5, return_sequences=True))), SEQUENCE, 0, BOTH),
    Kind("MultiHeadAttention", c.attention, SEQUENCE, 0, BOTH),
    Kind("MultiHeadAttention, causal", c.causal, SEQUENCE, 0, BOTH),
    Kind("language model", c.language_model, IDS, 30, BOTH),
    Kind("UpSampling1D", layer(lambda: L.UpSampling1D(2)), SEQUENCE, 0, BOTH),
    Kind("UpSampling2D", layer(lambda: L.UpSampling2D(2)), PIXELS, 0, PICTURE),
    Kind("UpSampling2D bilinear", layer(lambda: L.UpSampling2D(2, interpolation="bilinear")), PIXELS, 0, PICTURE),
    Kind("ZeroPadding2D", layer(lambda: L.ZeroPadding2D(((1, 2), (0, 3)))), PIXELS, 0, PICTURE),
    Kind("Cropping2D", layer(lambda: L.Cropping2D(((1, 2), (0, 3)))), PIXELS, 0, PICTURE),
    Kind("Cropping1D", layer(lambda: L.Cropping1D((1, 2))), SEQUENCE, 0, BOTH),
    Kind("Dropout", layer(lambda: L.Dropout(0.0), training=True), SEQUENCE, 0, BOTH),
    Kind("Flatten", layer(lambda: tf.keras.Sequential([L.Flatten(), L.Dense(3)])), (4, 9, 8)),
    Kind("Permute, Reshape", c.turned, SEQUENCE, 0, BOTH),
    Kind("RepeatVector", layer(lambda: L.RepeatVector(3)), ROW),
    Kind("softmax cross entropy", of(c.softmax), SEQUENCE, 0, BOTH),
    Kind("top-k accuracy", of(c.metrics), ROW),
    Kind("positions, embedded", c.positions, IDS, 30, BOTH),
    Kind("positions, sinusoids", of(c.sinusoids), SEQUENCE, 0, BOTH),
    Kind("causal mask by band_part", of(c.causal_mask), SEQUENCE, 0, BOTH),
    Kind("set_diag, diag_part", of(c.without_self), SEQUENCE, 0, BOTH),
    Kind("sequence_mask", of(c.length_mask), SEQUENCE, 0, BOTH),
    Kind("x[:, 1:] - x[:, :-1]", of(lambda x: x[:, 1:] - x[:, :-1]), SEQUENCE, 0, BOTH),
    Kind("x[:, -1], x[:, 0]", of(lambda x: x[:, -1] * x[:, 0]), SEQUENCE, 0, BOTH),
    Kind("x[:, -3:]", of(lambda x: x[:, -3:] * x[:, :3]), SEQUENCE, 0, BOTH),
    Kind("x[:, ::2]", of(lambda x: x[:, ::2]), SEQUENCE, 0, BOTH),
    Kind("x[:, ::-1]", of(lambda x: x[:, ::-1] * x), SEQUENCE, 0, BOTH),
    Kind("x[:, : n // 2]", of(c.halves), SEQUENCE, 0, BOTH),
    Kind("split of channels", of(lambda x: tf.multiply(*tf.split(x, 2, -1))), SEQUENCE, 0, BOTH),
    Kind("stack, unstack", of(lambda x: tf.stack(tf.unstack(x, axis=2)[:3], 1)), SEQUENCE, 0, BOTH),
    Kind("roll", of(lambda x: tf.roll(x, 1, 1) * x), SEQUENCE, 0, BOTH),
    Kind("roll by half", of(lambda x: tf.roll(x, tf.shape(x)[1] // 2, 1) * x), SEQUENCE, 0, BOTH),
    Kind("reverse", of(lambda x: tf.reverse(x, [1]) * x), SEQUENCE, 0, BOTH),
    Kind("cumsum", of(lambda x: tf.cumsum(x, 1) * x), SEQUENCE, 0, BOTH),
    Kind("one_hot", of(lambda ids: tf.one_hot(ids, 30)), IDS, 30, BOTH),
    Kind("gather", of(lambda x: tf.gather(x, [2, 0, 1], axis=1)), SEQUENCE, 0, BOTH),
    Kind("boolean maximum", of(lambda x: tf.reduce_max(tf.where(x > 0, x, -x), 1)), SEQUENCE, 0, BOTH),
    Kind("sort", of(lambda x: tf.sort(x, axis=1)), SEQUENCE, 0, BOTH),
    Kind("top_k", of(lambda x: tf.math.top_k(x, 3)[0]), SEQUENCE, 0, BOTH),
    Kind("top_k over the length", of(lambda x: tf.math.top_k(tf.transpose(x, [0, 2, 1]), 3)[0]), SEQUENCE, 0, BOTH),
    Kind("segment_sum", of(c.segments), SEQUENCE, 0, BOTH),
    Kind("pad to 32", of(c.padded), SEQUENCE, 0, BOTH),
    Kind("pad to a multiple of 4", of(c.to_multiple), SEQUENCE, 0, BOTH),
    Kind("blocks of 4", of(c.chunks), SEQUENCE, 0, BOTH),
    Kind("mirror padding", of(lambda x: tf.pad(x, [[0, 0], [2, 1], [0, 0]], "REFLECT")), SEQUENCE, 0, BOTH),
    Kind("bands of diagonals", of(c.bands), SEQUENCE, 0, BOTH),
    Kind("split by sizes", of(c.split), SEQUENCE, 0, BOTH),
    Kind("depth_to_space", of(lambda x: tf.nn.depth_to_space(tf.concat([x, x, x, x], 3), 2)), PIXELS, 0, PICTURE),
    Kind("crop_and_resize", of(c.crops), PIXELS, 0, PICTURE),
    Kind("central crop", of(c.centre), PIXELS, 0, PICTURE),
    Kind("pad to a bounding box", of(lambda x: tf.image.pad_to_bounding_box(x, 1, 2, 32, 32)), PIXELS, 0, PICTURE),
    Kind("flips", of(lambda x: tf.image.flip_left_right(x) * tf.image.flip_up_down(x)), PIXELS, 0, PICTURE),
    Kind("gather in batches", of(c.per_example), SEQUENCE, 0, BOTH),
    Kind("gather_nd, scatter_nd", of(c.scattered), SEQUENCE, 0, BOTH),
    Kind("repeat", of(lambda x: tf.repeat(x, 2, axis=1)), SEQUENCE, 0, BOTH),
    Kind("tile", of(lambda x: tf.tile(x[:, :, None], [1, 1, tf.shape(x)[1], 1])), SEQUENCE, 0, BOTH),
    Kind("relative positions", of(c.relative), SEQUENCE, 0, BOTH),
    Kind("linspace", of(lambda x: x * tf.linspace(0.0, 1.0, tf.shape(x)[1])[None, :, None]), SEQUENCE, 0, BOTH),
    Kind("mean over the mask", of(c.masked_mean), SEQUENCE, 0, BOTH),
    Kind("cumulative product, logsumexp", of(c.cumulative), SEQUENCE, 0, BOTH),
    Kind("Attention", layer(lambda: c.SelfAttention()), SEQUENCE, 0, BOTH),
    Kind("AdditiveAttention", layer(lambda: c.AdditiveSelfAttention()), SEQUENCE, 0, BOTH),
    Kind("TimeDistributed", layer(lambda: L.TimeDistributed(L.Dense(3))), SEQUENCE, 0, BOTH),
    Kind("local response normalization", of(lambda x: tf.nn.lrn(x, 1)), PIXELS, 0, PICTURE),
    Kind("total variation", of(tf.image.total_variation), PIXELS, 0, PICTURE),
    Kind("SSIM", of(lambda x: tf.image.ssim(x, x * 0.9, 1.0, filter_size=3)), PIXELS, 0, PICTURE),
    Kind("text CNN", c.text_cnn, IDS, 30, BOTH),
    Kind("Conv1D and LSTM", c.conv_lstm, SEQUENCE, 0, BOTH),
    Kind("U-Net", c.unet, PIXELS, 0, PICTURE),
    Kind("ResNet block", c.residual, PIXELS, 0, PICTURE),
    Kind("WaveNet", c.wavenet, SEQUENCE, 0, BOTH),
    Kind("transformer", c.transformer, IDS, 30, BOTH),
    Kind("Conv3D of clips", layer(lambda: L.Conv3D(4, 3, padding="same")), (2, 5, 6, 6, 2), 0, BOTH),
    Kind("MaxPooling3D of clips", layer(lambda: L.MaxPooling3D(2, padding="same")), (2, 5, 6, 6, 2), 0, BOTH),
    Kind("Conv2D, dilated", layer(lambda: L.Conv2D(6, 3, padding="same", dilation_rate=2)), PIXELS, 0, PICTURE),
    Kind("resize to twice, bicubic", c.upsampled("bicubic"), PIXELS),
    Kind("resize to twice, bilinear", c.upsampled("bilinear"), PIXELS, 0, PICTURE),
    Kind("resize to twice, nearest", c.upsampled("nearest"), PIXELS, 0, PICTURE),
    Kind("resize to one size, bilinear", c.resized("bilinear"), PIXELS, 0, PICTURE),
    Kind("resize to one size, nearest", c.resized("nearest"), PIXELS, 0, PICTURE),
)
