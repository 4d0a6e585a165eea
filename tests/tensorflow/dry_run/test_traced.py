"""What is traced: specs of whatever one gives, batches, training steps that leave the model as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from habana_tf.card.prediction.foreseen import PredictionError
from habana_tf.tensorflow.dry_run import traced
from tests.child import on_hpu

layers = tf.keras.layers


@pytest.mark.parametrize(
    "given, shape, dtype",
    [
        (np.zeros((2, 3), "i4"), (2, 3), tf.int32),
        (tf.TensorSpec((2, 3), tf.bfloat16), (2, 3), tf.bfloat16),
        ((2, 3), (2, 3), tf.float32),
        ([2, 3], (2, 3), tf.float32),
        (tf.TensorShape((4,)), (4,), tf.float32),
    ],
)
def test_one_input(given: Any, shape: tuple[int, ...], dtype: tf.DType) -> None:
    (spec,) = traced.as_specs((given,))
    assert tuple(spec.shape) == shape and spec.dtype == dtype


def test_nests_and_datasets() -> None:
    (spec,) = traced.as_specs(({"a": (2, 3), "b": [np.zeros(4)]},))
    assert tuple(spec["a"].shape) == (2, 3) and spec["b"][0].dtype == tf.float64
    data = tf.data.Dataset.from_tensor_slices(np.zeros((8, 5), "f4")).batch(4, drop_remainder=True)
    (spec,) = traced.as_specs((data,))
    assert tuple(spec.shape) == (4, 5)


def test_the_batch_is_the_first_size_and_can_be_another() -> None:
    specs = traced.as_specs(((8, 3), {"mask": (8,), "table": (5, 8)}))
    assert traced.batch_of(specs) == 8
    changed = traced.with_batch(specs, 32)
    assert tuple(changed[0].shape) == (32, 3)
    assert tuple(changed[1]["mask"].shape) == (32,) and tuple(changed[1]["table"].shape) == (5, 8)
    assert traced.batch_of((tf.TensorSpec(()),)) == 1
    with pytest.raises(PredictionError, match="give a size for each axis"):
        traced.batch_of((tf.TensorSpec((None, 3)),))


def test_examples_are_small_integers_one_place_per_tensor() -> None:
    ids = np.arange(4, dtype="i4")
    inputs = ((8, 3), {"b": ids, "a": [np.zeros(2, "f4"), tf.constant(5)]}, tf.TensorSpec((2,), tf.int32))
    found = traced.examples_of(inputs)
    assert len(found) == len(tf.nest.flatten(traced.as_specs(inputs))) == 5
    assert [None if x is None else x.tolist() for x in found] == [None, None, 5, [0, 1, 2, 3], None]


def test_what_is_no_tensor_is_refused() -> None:
    with pytest.raises(PredictionError, match="give arrays"):
        traced.as_specs((object(),))


def ops(concrete: Any) -> set[str]:
    """Types of the ops in a function and those that it calls."""
    definition = concrete.graph.as_graph_def()
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    return {n.op for n in nodes}


@on_hpu
def test_a_training_step_has_gradients_and_an_update() -> None:
    model = tf.keras.Sequential([layers.Input((8,)), layers.Dense(4)])
    before = [w.numpy() for w in model.trainable_variables]
    found = ops(traced.traced(model, traced.as_specs(((2, 8),)), None))
    assert "MatMul" in found and any(op.startswith(("ResourceApply", "Assign")) for op in found)
    assert all((a == w.numpy()).all() for a, w in zip(before, model.trainable_variables, strict=True))
    assert getattr(model, "optimizer", None) is None, "it stays not compiled"


@on_hpu
def test_without_targets_classes_are_told_from_numbers() -> None:
    """Ours: cross entropy where the last axis has several entries, else the mean of squares."""
    several = tf.keras.Sequential([layers.Input((8,)), layers.Dense(4)])
    one = tf.keras.Sequential([layers.Input((8,)), layers.Dense(1)])
    specs = traced.as_specs(((2, 8),))
    assert "SparseSoftmaxCrossEntropyWithLogits" in ops(traced.traced(several, specs, "sgd"))
    found = ops(traced.traced(one, specs, "sgd"))
    assert "SparseSoftmaxCrossEntropyWithLogits" not in found and found & {"Square", "Mul"}


@on_hpu
def test_a_compiled_step_is_traced_once() -> None:
    """Variables that were made while tracing would have it traced twice."""
    calls = []

    def loss(truth: Any, y: Any) -> Any:
        calls.append(1)
        return tf.reduce_mean(tf.square(truth - y), -1)

    model = tf.keras.Sequential([layers.Input((8,)), layers.Dense(4)])
    model.compile("adam", loss, metrics=["mae"])
    specs = traced.as_specs(((2, 8), (2, 4)))
    traced.traced(model, specs, None)
    first = len(calls)
    traced.traced(model, specs, None)
    assert first <= 2 and len(calls) - first == 1, "one more where Keras 3 builds the metrics"
