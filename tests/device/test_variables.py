"""Ops on variables of the card, outside any cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.child import on_hpu
from tests.device.launching import counters, in_threads


def same_on_cpu(compute: Callable[[], Any]) -> None:
    """What `compute` returns on HPU is what it returns on the CPU."""
    import tensorflow as tf

    got = tf.nest.map_structure(lambda t: t.numpy(), compute())
    with tf.device("/CPU:0"):
        want = tf.nest.map_structure(lambda t: t.numpy(), compute())
    tf.nest.map_structure(lambda g, w: np.testing.assert_allclose(g, w, rtol=1e-6, atol=1e-6), got, want)


TABLE = np.arange(12, dtype=np.float64).reshape(4, 3)


@on_hpu
def test_ops_without_a_lowering_run_tensorflows_kernel_on_copies() -> None:
    import tensorflow as tf

    def update() -> Any:
        v = tf.Variable(TABLE)  # float64: not in the op table
        v.scatter_add(tf.IndexedSlices(tf.ones([2, 3], tf.float64), tf.constant([1, 1])))
        v[0:1].assign(-tf.ones([1, 3], tf.float64))
        v.scatter_nd_update([[3, 2]], tf.constant([9.0], tf.float64))
        return [v.read_value(), tf.gather(v, [1, 3]), v.gather_nd([[0, 1], [2, 2]])]

    before = counters()["variable_ops"]
    same_on_cpu(update)
    assert counters()["variable_ops"] >= before + 5


@on_hpu
def test_a_generator_on_the_card_gives_tensorflows_numbers() -> None:
    import tensorflow as tf

    def draw() -> Any:
        generator = tf.random.Generator.from_seed(3)
        return [generator.normal([3]), generator.uniform([2], 0, 10, tf.int32), generator.normal([2])]

    same_on_cpu(draw)


@on_hpu
def test_an_op_asked_for_the_cpu_works_on_a_variable_of_the_card() -> None:
    import tensorflow as tf

    v = tf.Variable(TABLE)
    assert v.device.endswith("HPU:0")
    with tf.device("/CPU:0"):
        v.scatter_sub(tf.IndexedSlices(tf.ones([1, 3], tf.float64), tf.constant([0])))
    np.testing.assert_array_equal(v.numpy()[0], TABLE[0] - 1)


@on_hpu
def test_concurrent_updates_of_one_variable_are_not_lost() -> None:
    import tensorflow as tf

    v = tf.Variable(np.zeros([4, 3]))

    def work() -> None:
        with tf.device("/HPU:0"):
            for _ in range(20):
                v.scatter_add(tf.IndexedSlices(tf.ones([1, 3], tf.float64), tf.constant([2])))

    in_threads(work, 4)
    np.testing.assert_array_equal(v.numpy()[2], [80.0] * 3)


@on_hpu
def test_asynchronous_eager_execution_does_not_wait_for_itself() -> None:
    import tensorflow as tf

    table = tf.Variable(TABLE)  # stock kernel
    small = tf.Variable(TABLE.astype(np.float32))  # dataflow form
    tf.config.experimental.set_synchronous_execution(False)
    try:
        for v in (table, small):
            v.scatter_add(tf.IndexedSlices(tf.ones([1, 3], v.dtype), tf.constant([2])))
            np.testing.assert_array_equal(v.numpy()[2], TABLE[2] + 1)
    finally:
        tf.config.experimental.set_synchronous_execution(True)


@on_hpu
def test_reading_an_uninitialized_variable_is_tensorflows_error() -> None:
    import tensorflow as tf

    handle = tf.raw_ops.VarHandleOp(dtype=tf.float64, shape=[4, 3], shared_name="nothing here")
    try:
        tf.raw_ops.ResourceScatterAdd(resource=handle, indices=[0], updates=tf.ones([1, 3], tf.float64))
    except tf.errors.OpError as error:
        assert "nothing here" in str(error)
    else:
        raise AssertionError("an uninitialized variable was updated")
