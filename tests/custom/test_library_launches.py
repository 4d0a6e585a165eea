"""Kernels in C within launches: eager, in clusters, in loops, and trained."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.child import on_hpu
from tests.custom.launched import kernels
from tests.custom.libraries import ops, sort_rows

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@on_hpu
def test_sorted_rows_of_any_shape_and_type() -> None:
    @settings(max_examples=25, deadline=None)
    @given(
        st.lists(st.integers(0, 9), min_size=1, max_size=3), st.booleans(), st.integers(0, 1 << 30), st.booleans(),
        st.sampled_from([tf.float32, tf.bfloat16]),
    )  # fmt: skip
    def check(shape: list[int], descending: bool, seed: int, ties: bool, dtype: Any) -> None:
        x = np.random.default_rng(seed).normal(size=shape).astype("f4")
        x = np.round(x) + 0 if ties else x
        x = tf.cast(x, dtype).numpy().astype("f4")
        y, places = sort_rows()(tf.cast(x, dtype), descending=descending)
        order = np.argsort(-x if descending else x, -1, kind="stable")
        np.testing.assert_array_equal(places, order)
        np.testing.assert_array_equal(tf.cast(y, tf.float32), np.take_along_axis(x, order, -1))

    check()


@on_hpu
def test_in_a_cluster_it_is_one_kernel_call_that_nothing_is_fused_with() -> None:
    x = np.random.default_rng(0).normal(size=(6, 5)).astype("f4")

    @tf.function
    def f(x: Any) -> Any:
        y, _ = sort_rows()(tf.exp(x) + 1.0)
        return tf.math.log(y - 1.0) * 2.0

    np.testing.assert_allclose(f(tf.constant(x)), 2 * np.sort(x, -1), rtol=1e-4)
    assert [k["does"] for k in kernels()] == ["map", "custom", "map"]
    row = kernels()[1]
    assert row["engine"] == "TPC" and row["bytes"] == 2 * 6 * 5 * 4 and row["outputs"] == 1 and row["fused"] == {}
    from habana_tf import placement_report

    assert len(placement_report().graphs[-1].launches) == 1 and not placement_report().graphs[-1].refused


@on_hpu
def test_what_a_kernel_is_told() -> None:
    for dtype, number in ((tf.float32, 1), (tf.int32, 3), (tf.int64, 9), (tf.uint8, 4), (tf.bool, 10)):
        x = tf.cast(tf.ones([2]), dtype)
        y = ops().native_tell(x, [tf.ones([1, 8]), tf.ones([1, 8])], 42, k=7, text="hello")
        assert y.numpy().tolist() == [8, 303, 5, 1, 41, number * 1000 + 8, 42]
    short = tf.function(lambda: ops().native_tell(1.0, [tf.ones([1, 8])], 1, k=9, sizes=[4], on=False, text="") * 2)()
    assert short.numpy()[:7].tolist() == [20, 208, 0, 0, 62, 2016, 2]


@on_hpu
def test_static_shapes_from_the_function_of_the_kernel() -> None:
    known = tf.function(lambda x: sort_rows()(x)[1]).get_concrete_function(tf.TensorSpec([4, 3]))
    assert known.output_shapes.as_list() == [4, 3]
    told = tf.function(lambda x: ops().native_tell(x, [x], 1, k=4)).get_concrete_function(tf.TensorSpec([4, 3]))
    assert told.output_shapes.as_list() == [4]


@on_hpu
def test_many_threads_and_items_give_the_same_bits() -> None:
    from habana_tf._native import _bridge

    x = tf.constant(np.random.default_rng(1).normal(size=(257, 33)).astype("f4"))
    before, found = _bridge.get_threads(), set()
    try:
        for threads in (1, 2, 5):
            _bridge.set_threads(threads)
            for _ in range(3):
                y, places = sort_rows()(x)
                found.add(y.numpy().tobytes() + places.numpy().tobytes())
    finally:
        _bridge.set_threads(before)
    assert len(found) == 1


@on_hpu
def test_an_op_of_tensorflow_that_hpu_has_not_by_a_kernel_in_c() -> None:
    assert ops().cross.signature is None
    a, b = (np.random.default_rng(k).normal(size=(5, 3)).astype("f4") for k in (0, 1))
    f = tf.function(lambda a, b: tf.linalg.cross(a * 2.0, b) + 1.0)
    np.testing.assert_allclose(f(tf.constant(a), tf.constant(b)), np.cross(2 * a, b) + 1, rtol=1e-5, atol=1e-6)
    assert "custom" in [k["does"] for k in kernels()]
    v = tf.Variable(a)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.linalg.cross(v, b))
    assert tape.gradient(y, v).shape == (5, 3)  # by TensorFlow's own gradient, which is Cross again


@on_hpu
def test_outputs_that_nobody_reads_and_empty_tensors() -> None:
    x = tf.constant([2.0, 4.0])
    assert tf.function(lambda x: ops().native_two(x)[0] + 1)(x).numpy().tolist() == [2, 3]
    assert tf.function(lambda x: ops().native_two(x)[1] + 1)(x).numpy().tolist() == [1, 2]
    assert [t.shape.as_list() for t in ops().native_two(tf.zeros([0, 3]))] == [[0, 3], [0, 3]]
    same = tf.function(lambda x: ops().native_two(ops().native_two(x)[0])[0])(x)
    assert same.numpy().tolist() == [0.5, 1]


@on_hpu
def test_it_works_in_a_loop_of_a_launch() -> None:
    @tf.function
    def f(x: Any) -> Any:
        def step(k: Any, x: Any) -> Any:
            return k + 1, ops().native_scale(x, by=0.5) + 1.0

        return tf.while_loop(lambda k, _: k < 4, step, (0, x))[1]

    np.testing.assert_allclose(f(tf.ones([2, 3])), np.full((2, 3), 5.0))  # by 2 * 0.5 each
    assert any(k["does"] == "custom" and k.get("times") == 4 for k in kernels())


@on_hpu
def test_a_training_step_with_a_kernel_in_it() -> None:
    @tf.RegisterGradient("NativeScale")
    def gradient(op: Any, dy: Any) -> Any:
        return ops().native_scale(dy, by=op.get_attr("by"))

    v = tf.Variable([[1.0, 2.0], [3.0, 4.0]])

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(ops().native_scale(v, by=0.25)))
        v.assign_sub(0.5 * tape.gradient(loss, v))
        return loss

    assert float(step()) == 7.5  # (v / 2)^2
    np.testing.assert_allclose(v, [[0.75, 1.5], [2.25, 3.0]])
    from habana_tf import placement_report
    from habana_tf.tensorflow.graph import bf16_config

    w = tf.constant(np.eye(2, dtype="f4"))
    with bf16_config.using(bf16_config.built_in("full")):
        y = tf.function(lambda x: ops().native_scale(tf.matmul(x, w)))(tf.constant([[1.0, 2.0]]))
    assert y.numpy().tolist() == [[2, 4]]
    assert ("NativeScale", "CONDITIONAL") in {(op, why.name) for op, why in placement_report().graphs[-1].precision}
