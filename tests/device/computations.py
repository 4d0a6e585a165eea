"""What the kinds of `kinds.py` compute that are more than one layer: a function of a batch, or what makes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

L = tf.keras.layers
Forward = Callable[[Any], Any]


def merged() -> Forward:
    one, two = L.Dense(6), L.Dense(3)
    return lambda x: L.Concatenate()([one(x), two(x)]) if x.shape.rank == 2 else L.Concatenate(1)([one(x), one(2 * x)])


def attention() -> Forward:
    attend = L.MultiHeadAttention(2, 4)
    return lambda x: attend(x, x)


def causal() -> Forward:
    attend = L.MultiHeadAttention(2, 4)
    return lambda x: attend(x, x, use_causal_mask=True)


def language_model() -> Forward:
    embed, dense = L.Embedding(30, 8), L.Dense(30)

    def forward(ids: Any) -> Any:
        logits = dense(embed(ids[:, :-1]))
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=ids[:, 1:], logits=logits)

    return forward


def masked_rnn() -> Forward:
    embed, rnn = L.Embedding(30, 8, mask_zero=True), L.LSTM(6)
    return lambda ids: rnn(embed(ids))


def positions() -> Forward:
    embed, places = L.Embedding(30, 8), L.Embedding(64, 8)
    return lambda ids: embed(ids) + places(tf.range(tf.shape(ids)[1]))


def sinusoids(x: Any) -> Any:
    at = tf.cast(tf.range(tf.shape(x)[1]), tf.float32)[:, None] * (1.0 / tf.range(1.0, 9.0))
    return x + tf.sin(at)[None]


def causal_mask(x: Any) -> Any:
    n = tf.shape(x)[1]
    scores = tf.einsum("btd,bsd->bts", x, x)
    seen = tf.linalg.band_part(tf.ones((n, n)), -1, 0)
    return tf.nn.softmax(scores - 1e9 * (1 - seen)[None])


def without_self(x: Any) -> Any:
    scores = tf.einsum("btd,bsd->bts", x, x)
    scores = tf.linalg.set_diag(scores, tf.fill(tf.shape(scores)[:-1], -1e9))
    return tf.nn.softmax(scores) + tf.linalg.diag(tf.linalg.diag_part(scores)) * 1e-9


def padded(x: Any) -> Any:
    n = tf.shape(x)[1]
    return tf.pad(x, [[0, 0], [0, 32 - n], [0, 0]])


def to_multiple(x: Any) -> Any:
    n = tf.shape(x)[1]
    return tf.pad(x, [[0, 0], [0, -n % 4], [0, 0]])


def halves(x: Any) -> Any:
    n = tf.shape(x)[1] // 2
    return x[:, :n] * x[:, n : 2 * n]


def length_mask(x: Any) -> Any:
    seen = tf.sequence_mask(tf.range(tf.shape(x)[0]) % 3 + 1, tf.shape(x)[1], tf.float32)
    return x * seen[:, :, None]


def metrics(x: Any) -> Any:
    labels = tf.range(tf.shape(x)[0]) % 10
    hit = tf.keras.metrics.sparse_top_k_categorical_accuracy(labels, x, k=3)
    return tf.cast(tf.math.in_top_k(labels, x, 2), tf.float32) + hit + tf.reduce_sum(x)


def chunks(x: Any) -> Any:
    """Blocks of 4 with what is missing padded: local attention."""
    b, n = tf.shape(x)[0], tf.shape(x)[1]
    blocks = (n + 3) // 4
    x = tf.pad(x, [[0, 0], [0, blocks * 4 - n], [0, 0]])
    x = tf.reshape(x, [b, blocks, 4, 8])
    y = tf.reshape(tf.einsum("bntd,bnsd->bnts", x, x), [b, blocks * 4, 4])
    return y[:, :n]


def bands(x: Any) -> Any:
    scores = tf.einsum("btd,bsd->bts", x, x)
    band = tf.linalg.diag_part(tf.stop_gradient(scores), k=(-1, 1))
    return scores * tf.linalg.diag(band, k=(-1, 1), num_rows=tf.shape(x)[1])


def split(x: Any) -> Any:
    first, rest = tf.split(x, [2, -1], 1)
    return rest * tf.reduce_sum(first, 1, keepdims=True)


def crops(x: Any) -> Any:
    boxes = tf.constant([[0.1, 0.2, 0.7, 0.9], [0.0, 0.3, 1.0, 0.8]])
    return tf.image.crop_and_resize(x, boxes, [0, 0], [5, 4])


def centre(x: Any) -> Any:
    top, left = (tf.shape(x)[1] - 8) // 2, (tf.shape(x)[2] - 6) // 2
    return tf.image.crop_to_bounding_box(x, top, left, 8, 6)


def scattered(x: Any) -> Any:
    n = tf.shape(x)[0]
    at = tf.stack([tf.range(n), tf.zeros([n], tf.int32) + 2], 1)
    rows = tf.gather_nd(x, at)
    return tf.scatter_nd(at, rows, tf.shape(x)) + x


def relative(x: Any) -> Any:
    """The shift of Transformer-XL: scores by distance, turned into scores by position."""
    n = tf.shape(x)[1]
    scores = tf.einsum("btd,bsd->bts", x, x)
    padded = tf.pad(scores, [[0, 0], [0, 0], [1, 0]])
    return tf.reshape(tf.reshape(padded, [-1, n + 1, n])[:, 1:], tf.shape(scores))


def masked_mean(x: Any) -> Any:
    mask = tf.cast(tf.sequence_mask(tf.math.minimum(tf.shape(x)[1], 4), tf.shape(x)[1]), tf.float32)[None, :, None]
    return tf.reduce_sum(x * mask, 1) / tf.cast(tf.math.minimum(tf.shape(x)[1], 4), tf.float32)


class SelfAttention(tf.keras.layers.Layer):
    def call(self, x: Any) -> Any:
        return L.Attention()([x, x])


class AdditiveSelfAttention(tf.keras.layers.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.attend = L.AdditiveAttention()

    def call(self, x: Any) -> Any:
        return self.attend([x, x])


def text_cnn() -> Forward:
    embed, dense = L.Embedding(30, 8), L.Dense(3)
    convolutions = [L.Conv1D(4, k, activation="relu") for k in (2, 3, 4)]

    def forward(ids: Any) -> Any:
        x = embed(ids)
        return dense(tf.concat([tf.reduce_max(conv(x), 1) for conv in convolutions], 1))

    return forward


def conv_lstm() -> Forward:
    conv, pool, rnn, dense = L.Conv1D(6, 3, 2, "same"), L.MaxPooling1D(2), L.LSTM(5, return_sequences=True), L.Dense(3)
    return lambda x: dense(rnn(pool(conv(x))))


def unet() -> Forward:
    down, middle, up = L.Conv2D(4, 3, 2, "same"), L.Conv2D(6, 3, padding="same"), L.Conv2DTranspose(4, 3, 2, "same")
    out = L.Conv2D(2, 1)

    def forward(x: Any) -> Any:
        grown = up(middle(down(x)))[:, : tf.shape(x)[1], : tf.shape(x)[2]]
        return out(tf.concat([x, grown], 3))

    return forward


def residual() -> Forward:
    one, two, short = L.Conv2D(4, 3, 2, "same"), L.Conv2D(4, 3, padding="same"), L.Conv2D(4, 1)
    norm, pool = L.BatchNormalization(), L.GlobalAveragePooling2D()
    return lambda x: pool(tf.nn.relu(two(tf.nn.relu(norm(one(x), training=True))) + short(x[:, ::2, ::2])))


def wavenet() -> Forward:
    convolutions = [L.Conv1D(8, 2, padding="causal", dilation_rate=2**k) for k in range(3)]

    def forward(x: Any) -> Any:
        for conv in convolutions:
            x = x + tf.tanh(conv(x))
        return x

    return forward


def transformer() -> Forward:
    embed, places, attend = L.Embedding(30, 8), L.Embedding(64, 8), L.MultiHeadAttention(2, 4)
    norm, dense, out = L.LayerNormalization(), L.Dense(16, activation="gelu"), L.Dense(8)

    def forward(ids: Any) -> Any:
        x = embed(ids) + places(tf.range(tf.shape(ids)[1]))[None]
        mask = tf.linalg.band_part(tf.ones([tf.shape(ids)[1]] * 2, tf.bool), -1, 0)
        x = x + attend(x, x, attention_mask=mask)
        return out(dense(norm(x)))[:, -1]

    return forward


def upsampled(method: str) -> Callable[[], Forward]:
    return lambda: lambda x: tf.image.resize(x, [2 * tf.shape(x)[1], 2 * tf.shape(x)[2]], method)


def resized(method: str) -> Callable[[], Forward]:
    return lambda: lambda x: tf.image.resize(x, [14, 10], method)


def softmax(x: Any) -> Any:
    return tf.nn.softmax_cross_entropy_with_logits(labels=tf.nn.softmax(x * 2), logits=x)


def turned() -> Forward:
    return tf.keras.Sequential([L.Permute((2, 1)), L.Reshape((-1, 4))])


def segments(x: Any) -> Any:
    return tf.math.unsorted_segment_sum(x, tf.range(tf.shape(x)[0]) % 3, 3)


def per_example(x: Any) -> Any:
    return tf.gather(x, tf.zeros([tf.shape(x)[0], 2], tf.int32) + 1, batch_dims=1)


def cumulative(x: Any) -> Any:
    return tf.math.cumprod(x, 1, exclusive=True) + tf.math.cumulative_logsumexp(x, 1)
