"""Sizes that change cost at most two compilations per cluster, and every size gives TensorFlow's numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.child import on_hpu
from tests.versions import KERAS_3

BATCHES = (64, 29, 52, 1, 13, 14, 100, 64)
LENGTHS = ((16, 10), (16, 12), (16, 57), (7, 33), (31, 9), (3, 4), (5, 44))


def images() -> tf.keras.Model:
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input((12, 12, 3)),
            layers.Conv2D(16, 3, padding="same", use_bias=False),
            layers.BatchNormalization(momentum=0.9),
            layers.ReLU(),
            layers.MaxPooling2D(2),
            layers.Conv2D(24, 3, strides=2),
            layers.AveragePooling2D(2),
            layers.Flatten(),
            layers.Dense(32, activation="tanh"),
            layers.LayerNormalization(),
            layers.Dense(10),
        ]
    )


def words() -> tf.keras.Model:
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input((None,), dtype="int32"),
            layers.Embedding(50, 16),
            layers.Dense(24, activation="relu"),
            layers.GlobalAveragePooling1D(),
            layers.Dense(10),
        ]
    )


def attention() -> tf.keras.Model:
    layers = tf.keras.layers
    ids = layers.Input((None,), dtype="int32")
    x = layers.Embedding(50, 16)(ids)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 8)(x, x, use_causal_mask=True))
    x = layers.LayerNormalization()(x + layers.Dense(16)(layers.Dense(32, activation="gelu")(x)))
    return tf.keras.Model(ids, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))


def trained(build: Callable[[], Any], data: list[tuple[Any, Any]], device: str) -> tuple[list[float], list[Any]]:
    """The losses of steps of gradient descent, one on each batch, and the weights after them."""
    with tf.device(device):
        tf.keras.utils.set_random_seed(3)
        model = build()
        for k, w in enumerate(model.weights):  # from NumPy: initializers may differ in the last place
            if w.shape.rank and w.shape.rank > 1:
                w.assign(np.random.default_rng(k).normal(0, 0.2, w.shape))

        @tf.function(reduce_retracing=True)
        def step(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                losses = tf.keras.losses.sparse_categorical_crossentropy(y, model(x, training=True), from_logits=True)
                loss = tf.reduce_mean(losses)
            for w, g in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True):
                w.assign_sub(0.05 * tf.convert_to_tensor(g))
            return loss

        specs = [tf.TensorSpec([None] * v.ndim if v.ndim < 3 else [None, *v.shape[1:]], v.dtype) for v in data[0]]
        concrete = step.get_concrete_function(*specs)
        losses = [float(concrete(tf.constant(x), tf.constant(y))) for x, y in data]
        return losses, [w.numpy() for w in model.weights]


def same(build: Callable[[], Any], data: list[tuple[Any, Any]]) -> Any:
    """Trains on both devices, compares, and gives the report of what HPU compiled."""
    from habana_tf import recompilation_report
    from habana_tf.resolver import recompilations

    recompilations.reset()
    losses, weights = trained(build, data, "/HPU:0")
    report = recompilation_report()
    want_losses, want = trained(build, data, "/CPU:0")
    np.testing.assert_allclose(losses, want_losses, rtol=1e-4)
    for got, expected in zip(weights, want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)
    assert report.clusters and all(m.recipe != "interpreted" for c in report.clusters for m in c.met)
    return report


def numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def labels(n: int) -> Any:
    return np.random.default_rng(n).integers(0, 10, n)


@on_hpu
def test_batches_of_any_size_cost_two_compilations() -> None:
    report = same(images, [(numbers(n, 12, 12, 3), labels(n)) for n in BATCHES])
    for cluster in report.clusters:
        assert sum(m.recipe == "compiled" for m in cluster.met) <= 2, cluster
    step = max(report.clusters, key=lambda c: c.ops)
    assert [m.recipe for m in step.met] == ["compiled"] * 2 + ["known"] * 5
    assert step.met[1].changed[0].axis == 0 and (step.met[1].changed[0].before, step.met[1].changed[0].after) == (
        64,
        29,
    )


@on_hpu
def test_sequences_of_any_length_cost_one_compilation_per_size_that_changes() -> None:
    few_recipes_for_sequences(words)


@on_hpu
def test_attention_over_sequences_of_any_length_costs_no_more() -> None:
    few_recipes_for_sequences(attention)


def few_recipes_for_sequences(build: Callable[[], Any]) -> None:
    rng = np.random.default_rng(0)
    report = same(build, [(rng.integers(0, 50, s).astype(np.int32), labels(s[0])) for s in LENGTHS])
    for cluster in report.clusters:
        assert sum(m.recipe == "compiled" for m in cluster.met) <= 3, cluster
        assert all(m.recipe == "known" for m in cluster.met[4:])


@on_hpu
def test_any_number_of_distinct_words_costs_two_compilations() -> None:
    """An optimizer sums the rows of equal words: into as many as there are distinct ones, another number each step."""
    from habana_tf import recompilation_report
    from habana_tf.resolver import recompilations

    rng = np.random.default_rng(0)
    batches = [rng.integers(0, most, (16, 12)).astype(np.int32) for most in (50, 20, 30, 10, 45, 3)]
    assert len({len(np.unique(x)) for x in batches}) == len(batches)

    def trained(device: str) -> tuple[list[float], list[Any]]:
        with tf.device(device):
            tf.keras.utils.set_random_seed(3)
            model = words()
            loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(tf.keras.optimizers.SGD(0.1, momentum=0.9), loss)
            losses = [model.train_on_batch(x, labels(16)) for x in batches]
            return losses, model.get_weights()

    recompilations.reset()
    losses, weights = trained("/HPU:0")
    report = recompilation_report()
    want_losses, want = trained("/CPU:0")
    np.testing.assert_allclose(losses, want_losses, rtol=1e-4)
    for got, expected in zip(weights, want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-5)
    step = max(report.clusters, key=lambda c: c.ops)
    if KERAS_3:  # its optimizers take dense gradients: no number of words is in a shape
        assert [m.recipe for m in step.met] == ["compiled"], step
    else:
        assert [m.recipe for m in step.met] == ["compiled"] * 2 + ["known"] * (len(batches) - 2), step


@on_hpu
def test_segments_of_any_number() -> None:
    from habana_tf import recompilation_report
    from habana_tf.resolver import recompilations

    raw = tf.raw_ops

    @tf.function(reduce_retracing=True)
    def segments(x: Any, ids: Any, n: Any) -> list[Any]:
        kinds = (raw.UnsortedSegmentSum, raw.UnsortedSegmentProd, raw.UnsortedSegmentMax, raw.UnsortedSegmentMin)
        out = [kind(data=x, segment_ids=ids, num_segments=n) for kind in kinds]
        rows = raw.SparseSegmentMeanWithNumSegments(data=x, indices=ids, segment_ids=tf.range(9), num_segments=n + 9)
        return [*out, rows, raw.SparseSegmentSqrtNGrad(grad=x, indices=ids, segment_ids=tf.range(9), output_dim0=n)]

    x = numbers(9, 4)
    recompilations.reset()
    for n in (5, 7, 3, 20, 4):
        ids = (np.arange(9) % min(n, 4)).astype(np.int32)
        with tf.device("/CPU:0"):
            want = segments(tf.constant(x), tf.constant(ids), tf.constant(n))
        with tf.device("/HPU:0"):
            got = segments(tf.constant(x), tf.constant(ids), tf.constant(n))
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)
    assert recompilation_report().clusters
    for cluster in recompilation_report().clusters:
        assert [m.recipe for m in cluster.met] == ["compiled"] * 2 + ["known"] * 3, cluster
