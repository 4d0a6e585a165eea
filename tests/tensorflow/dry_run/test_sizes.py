"""Sizes that depend on values: predicted as the most that they can be, which is what a run with that many launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.child import on_hpu
from tests.versions import KERAS_3

layers = tf.keras.layers
IDS, WORDS, WIDTH = (8, 16), 1000, 32


def embedding() -> tf.keras.Model:
    return tf.keras.Sequential([
        layers.Input(IDS[1:], dtype="int32"), layers.Embedding(WORDS, WIDTH), layers.GlobalAveragePooling1D(),
        layers.Dense(4),
    ])  # fmt: skip


def _optimizers() -> list[Any]:
    names = "SGD RMSprop Adagrad Nadam Ftrl Lion Adafactor".split()
    rooms = [tf.keras.optimizers] if KERAS_3 else [tf.keras.optimizers, tf.keras.optimizers.legacy]
    return [getattr(room, name)() for room in rooms for name in names if hasattr(room, name)]


@on_hpu
def test_an_embedding_trains_with_adam() -> None:
    """Its gradient has a row for each id that differs: at most as many as there are ids."""
    import habana_tf

    model = embedding()
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    found = habana_tf.predict(model, tf.TensorSpec(IDS, tf.int32), tf.TensorSpec(IDS[:1], tf.int32), precision="fp32")
    assert found.memory["weights"] >= 4 * WORDS * WIDTH
    bounded = [text for text in found.assumed if "Unique" in text]
    assert KERAS_3 or (bounded and f"[{IDS[0] * IDS[1]}]" in bounded[0] and bounded[0] in str(found))


@pytest.mark.rest
@on_hpu
def test_an_embedding_trains_with_other_optimizers() -> None:
    import habana_tf

    for optimizer in _optimizers():
        model = embedding()
        model.compile(optimizer, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        found = habana_tf.predict(model, tf.TensorSpec(IDS, tf.int32), tf.TensorSpec(IDS[:1], tf.int32))
        assert found.step_seconds > 0, optimizer


def _kinds() -> list[tuple[Any, list[Any]]]:
    """Functions, and arguments with which their sizes are the largest."""
    ones, ids = np.ones((64, 32), "f4"), np.arange(64, dtype="i4")
    square = tf.ones((32, 8))

    def masked_twice(x: Any) -> Any:
        y = tf.boolean_mask(x, tf.reduce_sum(x, 1) > 0)
        return tf.matmul(tf.boolean_mask(y, tf.reduce_mean(y, 1) > 0), square)

    def unique(i: Any) -> Any:
        values, places, counts = tf.unique_with_counts(i)
        return tf.gather(tf.cast(values, tf.float32) * tf.cast(counts, tf.float32), places)

    def slices(i: Any) -> Any:
        return tf.cast(tf.raw_ops.UniqueV2(x=tf.reshape(i, (16, 4)), axis=[0])[0], tf.float32) * 2.0

    def partitioned(x: Any, i: Any) -> Any:
        return tf.matmul(tf.dynamic_partition(x, i * 0, 2)[0], square)

    def boxes(x: Any) -> Any:
        return tf.gather(x, tf.image.non_max_suppression(x[:, :4], x[:, 0], 20)) * 2.0

    def dense(x: Any) -> Any:
        splits = tf.concat([tf.zeros(7, tf.int64), tf.where(x[:1, 0] > 0)[:, 0] + 64], 0)
        return tf.RaggedTensor.from_row_splits(x, splits, validate=False).to_tensor() * 2.0

    return [
        (lambda x: tf.matmul(tf.gather(x, tf.where(x[:, 0] > 0)[:, 0]), square), [ones]),
        (masked_twice, [ones]),
        (unique, [ids]),
        (slices, [ids]),
        (partitioned, [ones, ids]),
        (lambda x, i: tf.math.segment_sum(x, i) * 2.0, [ones, ids]),
        (lambda i, j: tf.cast(tf.raw_ops.ListDiff(x=i, y=j)[0], tf.float32) * 2.0, [ids, ids[:0] + 1]),
        (boxes, [ones * np.arange(0, 640, 10)[:, None].astype("f4") + np.array([0, 0, 1, 1] + [0] * 28, "f4")]),
        (dense, [ones]),
    ]  # fmt: skip


@on_hpu
def test_bounds_are_the_sizes_of_the_largest_run() -> None:
    """What the last launch of a prediction makes is as large as what TensorFlow's own CPU kernels give."""
    import habana_tf

    for fn, arguments in _kinds():
        with tf.device("/CPU:0"):
            expected = fn(*map(tf.constant, arguments))
        specs = [tf.TensorSpec(a.shape, a.dtype) for a in arguments]
        found = habana_tf.predict(tf.function(fn), *specs, precision="fp32")
        sizes = [tuple(n.shape) for lowered in found.launched for n in lowered.program.outputs]
        assert tuple(expected.shape) in sizes, (expected.shape, sizes)
        assert found.assumed, sizes


@on_hpu
def test_a_value_that_is_a_size_is_given_as_an_array() -> None:
    import habana_tf
    from habana_tf.card.prediction.foreseen import PredictionError

    first = tf.function(lambda x, n: x[:n] * 2.0)
    found = habana_tf.predict(first, (64, 32), np.array(7, "i4"))
    assert [tuple(n.shape) for n in found.launched[-1].program.outputs] == [(7, 32)]
    with pytest.raises(PredictionError, match="give an argument as an array"):
        habana_tf.predict(first, (64, 32), tf.TensorSpec((), tf.int32))


@pytest.mark.rest
@on_hpu
def test_recurrent_layers_whose_sizes_come_from_variables_lists_and_launches() -> None:
    import habana_tf

    for model in (
        tf.keras.Sequential([layers.SimpleRNN(8), layers.Dense(4)]),
        tf.keras.Sequential([layers.Bidirectional(layers.LSTM(8)), layers.Dense(4)]),
        tf.keras.Sequential([layers.GRU(8, recurrent_dropout=0.1), layers.Dense(4)]),
    ):
        assert habana_tf.predict(model, (2, 5, 3)).memory["weights"] > 0


@on_hpu
def test_a_loop_of_the_host_counts_once_and_says_so() -> None:
    import habana_tf

    table = tf.Variable(tf.zeros((4, 8)))

    @tf.function
    def loop(x: Any, n: Any) -> Any:
        i, kept = tf.constant(0), tf.TensorArray(tf.float32, 0, dynamic_size=True)
        while i < n:
            x, i = tf.matmul(x, x), i + 1
            kept = kept.write(i - 1, x)
        return tf.zeros(tf.shape(table)) + 1.0, x + kept.read(0)

    found = habana_tf.predict(loop, (32, 32), tf.TensorSpec((), tf.int32))
    assert any("one iteration is counted" in text for text in found.assumed)


@on_hpu
def test_a_random_crop_counts_one_draw_and_a_lookup_has_its_keys_shape() -> None:
    import habana_tf

    def crop(x: Any) -> Any:
        return tf.image.random_crop(x, (8, 24, 24, 3)) * 2.0

    found = habana_tf.predict(crop, (8, 32, 32, 3))
    assert tuple(found.launched[-1].program.outputs[0].shape) == (8, 24, 24, 3)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1, 2], [3.0, 4.0]), 0.0)
    found = habana_tf.predict(lambda i: table.lookup(i) * 2.0, tf.TensorSpec((8, 4), tf.int32))
    assert tuple(found.launched[-1].program.outputs[0].shape) == (8, 4)


@on_hpu
def test_numbers_are_constants_and_a_dataset_may_have_an_open_batch() -> None:
    import habana_tf

    found = habana_tf.predict(lambda x, k, on=None: x * float(k) if on is None else x, (8, 16), 3, None)
    assert [t["name"] for t in found.pcie] == ["x"] and found.batch == 8
    data = tf.data.Dataset.from_tensor_slices((np.zeros((32, 16), "f4"), np.zeros(32, "i4"))).batch(8)
    model = tf.keras.Sequential([layers.Input((16,)), layers.Dense(4)])
    assert habana_tf.predict(model, data).batch == 8
