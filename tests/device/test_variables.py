"""Ops on variables of the card, outside any cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.child import on_hpu
from tests.device.launching import (
    F32,
    counters,
    doubled,
    in_threads,
    make_cluster,
    program,
    programs,
    unaligned,
    variable_plans,
)


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
    """Of a tensor that is still to be made TensorFlow asks the rank with Python's lock held."""
    import tensorflow as tf
    from tensorflow.python.eager import context, executor

    table = tf.Variable(TABLE)  # stock kernel
    small = tf.Variable(TABLE.astype(np.float32))  # dataflow form
    tf.config.experimental.set_synchronous_execution(False)
    try:
        for v in (table, small):
            v.scatter_add(tf.IndexedSlices(tf.ones([1, 3], v.dtype), tf.constant([2])))
            np.testing.assert_array_equal(v.numpy()[2], TABLE[2] + 1)
            v.assign_add(tf.ones([4, 3], v.dtype) * 0.5)  # of no other test's shape and value: compiled here
            np.testing.assert_array_equal(v.numpy()[1], TABLE[1] + 0.5)
        with context.executor_scope(executor.new_executor(enable_async=True)):
            assert (tf.ones([7, 11, 2]) * 3.0).shape.rank == 3
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


def error_of_update(op: str, assigns: Sequence[tuple[int, int]], results: Sequence[tuple[int, list[int]]]) -> str:
    """What an op says that is planned to assign (result, op input) of a program with these results.

    op: one that no other test of this file runs on float32, so that TensorFlow has no kernel of it yet.
    """
    import tensorflow as tf

    v = tf.Variable(tf.ones([4]))
    info = (make_cluster(["x"], outputs=len(results), name=op), [0], [], [])
    with (
        variable_plans(lambda node: ("dataflow", F32, info, assigns, [])),
        programs(lambda c, s: program(results, doubled)),
    ):
        try:
            getattr(tf.raw_ops, op)(ref=v.handle, indices=[[0]], updates=[1.0])
        except tf.errors.OpError as error:
            assert v.numpy().tolist() == [1.0] * 4
            return str(error)
    raise AssertionError("the plan was carried out")


@on_hpu
def test_a_new_value_of_another_shape_is_refused_before_there_is_memory_for_it() -> None:
    before = counters()["hbm_refusals"]
    text = error_of_update("ResourceScatterNdMin", [(0, 0)], [(F32, [1 << 36])])
    assert f"a value of shape [{1 << 36}] is assigned to a variable of shape [4], in launch 'test'" in text
    assert counters()["hbm_refusals"] == before


@on_hpu
def test_a_plan_that_does_not_fit_its_program_is_an_error() -> None:
    assert "has 1 outputs" in error_of_update("ResourceScatterNdSub", [(3, 0)], [(F32, [4])])
    assert "output 1 of program 'test' goes nowhere" in error_of_update(
        "ResourceScatterNdAdd", [(0, 0)], [(F32, [4]), (F32, [4])]
    )


@on_hpu
def test_unaligned_inputs_are_copied_and_counted_as_in_a_launch() -> None:
    import tensorflow as tf

    rows = unaligned(np.array([1, 2], np.int32))
    before = counters()["unaligned_copies"]
    for k, dtype in enumerate((tf.float32, tf.float64)):  # our program, and TensorFlow's CPU kernel
        v = tf.Variable(tf.zeros([4, 3], dtype))
        tf.raw_ops.ResourceScatterAdd(resource=v.handle, indices=rows, updates=tf.ones([2, 3], dtype))
        assert v.numpy()[:, 0].tolist() == [0, 1, 1, 0]
        assert counters()["unaligned_copies"] == before + k + 1


@on_hpu
def test_a_cpu_kernel_that_stands_in_takes_unaligned_inputs_which_are_counted() -> None:
    import tensorflow as tf

    before = counters()["unaligned_copies"]
    with tf.device("/HPU:0"):
        y = tf.raw_ops.Fill(dims=unaligned(np.array([2, 3], np.int32)), value=tf.constant(1.5, tf.float64))
    assert y.device.endswith("HPU:0")
    assert y.numpy().tolist() == [[1.5] * 3] * 2
    assert counters()["unaligned_copies"] == before + 1
