"""Loops in a launch whose sizes or numbers of iterations are computed, carried, change or are not known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.child import on_hpu
from tests.effort import some
from tests.loop_cases import W, X, compare


@pytest.mark.part
@on_hpu
def test_sizes_that_a_loop_computes_beside_other_work() -> None:
    """Of arrays, of lists, of what is given, of floating-point numbers: no lowering counts through these."""
    lengths = np.array([1, 3, 2], "i4")

    def left(first: Any, step: Callable[[Any, Any], Any], use: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        def f(x: tf.Tensor, w: tf.Tensor, given: tf.Tensor) -> Any:
            begin = first(given) if callable(first) else tf.constant(first)
            s, m = tf.while_loop(
                lambda i, *_: i < 3, lambda i, s, m: (i + 1, tf.tanh(s @ w), step(i, (m, given))), (0, x[0], begin)
            )[1:]
            return use(s, m)

        return f

    def rows(s: tf.Tensor, m: tf.Tensor) -> tf.Tensor:
        return s[:m]

    cases = [
        left(0, lambda i, v: tf.maximum(v[0], v[1][i]), rows),
        left(0, lambda i, v: tf.maximum(v[0], tf.reduce_max(v[1])), rows),
        left(0, lambda i, v: tf.maximum(v[0], tf.constant([1, 3, 2])[i]), rows),
        left([2, 10], lambda i, v: tf.reverse(v[0], [0]), tf.reshape),
        left(lambda given: given[:2] * [2, 0] + [0, 10], lambda i, v: tf.reverse(v[0], [0]), tf.reshape),
        left([1, 0], lambda i, v: tf.gather(v[0], [1, 0]), tf.transpose),
        left(0.0, lambda i, v: v[0] + 1.0, lambda s, m: s[: tf.cast(m, tf.int32)]),
    ]
    for case in some(cases, 2):
        compare(case, X, W, lengths, launches=None)
        compare(case, X, W, lengths, launches=None, gradients=False)


@on_hpu
def test_sizes_of_any_input_that_a_loop_carries() -> None:
    """One recipe serves all sizes: what the loop leaves is a size again, and its body may compute with it."""
    import habana_tf

    def f(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        def body(i: tf.Tensor, s: tf.Tensor, m: tf.Tensor) -> Any:
            return i + 1, tf.tanh(s @ w) + tf.cast(m, tf.float32), tf.shape(s)[0]

        s, m = tf.while_loop(lambda i, *_: i < 3, body, (0, x, 7))[1:]
        return tf.reshape(s, [5, m])

    specs = [tf.TensorSpec((None, 5)), tf.TensorSpec((5, 5))]
    on = {d: tf.function(lambda x, w: f(x, w), input_signature=specs) for d in ("/CPU:0", "/HPU:0")}
    for rows in (4, 7, 3, 9, 12):
        x = np.random.default_rng(rows).uniform(-1, 1, (rows, 5)).astype("f4")
        got = []
        for device, function in on.items():
            with tf.device(device):
                got.append(function(tf.constant(x), tf.constant(W)).numpy())
        np.testing.assert_allclose(got[1], got[0], rtol=1e-5, atol=1e-5)
    met = [m.recipe for c in habana_tf.recompilation_report().clusters for m in c.met if m.changed]
    assert len(met) >= 4 and met.count("known") >= len(met) - 1


@on_hpu
def test_trip_counts_that_change() -> None:
    with tf.device("/HPU:0"):

        @tf.function
        def f(x: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
            return tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, tf.tanh(s @ W + x[i])), (0, x[0]))[1]

        for n in (3, 6, 0, 4):
            want = X[0]
            for t in range(n):
                want = np.tanh(want @ W + X[t])
            np.testing.assert_allclose(f(tf.constant(X), tf.constant(n)), want, rtol=1e-4, atol=1e-5)


@on_hpu
def test_a_length_that_may_differ_costs_no_recipe_each() -> None:
    import habana_tf
    from habana_tf.tensorflow.graph.reasons import Reason

    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [layers.Embedding(9, 8), layers.LSTM(8, return_sequences=True), layers.GRU(8), layers.Dense(3)]
    )
    model.compile("sgd", "mse")
    counts = []
    for length in range(5, 15):
        model.train_on_batch(np.ones((4, length)), np.ones((4, 3)))
        counts.append(habana_tf.recompilation_report().compiled)
    assert counts[-1] == counts[4]
    assert any(reason is Reason.LOOP_LENGTH for _, reason, _ in habana_tf.placement_report().totals)


@on_hpu
def test_very_many_iterations() -> None:
    with tf.device("/HPU:0"):
        for trips in (70_000, 3_000):
            total = tf.function(
                lambda x, n=trips: tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + 1.0), (0, x))
            )
            assert float(total(tf.constant(0.0))[1]) == trips


@on_hpu
def test_batches_whose_size_is_not_known() -> None:
    """The last batch of an epoch is smaller: no size of a batch is known when the graph is made."""
    from habana_tf._native import _bridge

    layers = tf.keras.layers
    x = np.random.default_rng(0).integers(0, 30, (20, 12))
    losses = []
    for device in ("/CPU:0", "/HPU:0"):
        tf.keras.utils.set_random_seed(5)
        with tf.device(device):
            both = layers.Bidirectional(layers.LSTM(6, return_sequences=True))
            model = tf.keras.Sequential(
                [layers.Input((12,)), layers.Embedding(30, 8, mask_zero=True), both, layers.GRU(6), layers.Dense(4)]
            )
            model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            before = _bridge.counters()["launches"]
            found = model.fit(x, np.arange(20) % 4, batch_size=8, epochs=2, shuffle=False, verbose=0)
            launches = _bridge.counters()["launches"] - before
        losses.append(found.history["loss"])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    assert launches < 6 * 12 * 3, launches  # of six steps with three layers: less than one in an iteration
    assert _bridge.counters()["interpreted_launches"] == 0
