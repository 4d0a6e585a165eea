"""Variables without values: types and shapes are there, memory is not."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from habana_tf.tensorflow.dry_run.weightless import SMALL, without_values


def large(**more: object) -> tf.Variable:
    with without_values():
        return tf.Variable(lambda: tf.zeros((SMALL, 2)), **more)


def test_a_large_variable_has_a_shape_and_no_value() -> None:
    v = large(name="kernel", trainable=False)
    assert v.shape == (SMALL, 2) and v.dtype == tf.float32 and not v.trainable and v.name.startswith("kernel")
    assert tf.size(v.read_value()) == 0, "nothing was ever put there"
    v.assign(np.ones((SMALL, 2), "f4"))
    assert v.numpy().sum() == 2 * SMALL


def test_its_initializer_is_not_run() -> None:
    """A terabyte of random numbers."""
    with without_values():
        v = tf.Variable(lambda: tf.random.normal((1 << 19, 1 << 19)))
    assert v.shape == (1 << 19, 1 << 19)


def test_a_small_one_is_as_it_was() -> None:
    with without_values():
        v, w = tf.Variable(lambda: tf.fill((SMALL,), 3.0)), tf.Variable(7, dtype=tf.int64)
    assert (v.numpy() == 3).all() and w.numpy() == 7


def test_outside_nothing_changes() -> None:
    large()
    assert (tf.Variable(tf.zeros((SMALL, 2))).numpy() == 0).all()


def test_a_step_can_be_traced_on_it() -> None:
    v = large()
    step = tf.function(lambda x: v.assign_sub(x)).get_concrete_function(tf.TensorSpec((SMALL, 2)))
    assert step.inputs[0].shape == (SMALL, 2)


def test_an_optimizer_s_variables_have_no_values() -> None:
    """Of a weight of four terabytes."""
    from habana_tf.tensorflow.dry_run import traced
    from tests.versions import KERAS_3

    if KERAS_3:
        pytest.skip("its optimizers take Keras' own variables")
    for room in (tf.keras.optimizers, tf.keras.optimizers.legacy):
        with without_values():
            weight = tf.Variable(lambda: tf.zeros((1 << 20, 1 << 20)))
            optimizer = room.Adam()
            traced._make_state(optimizer, [weight])
        variables = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
        assert sum(tuple(v.shape) == tuple(weight.shape) for v in variables) == 2
