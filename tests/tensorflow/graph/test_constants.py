from __future__ import annotations

import tensorflow as tf

from habana_tf.tensorflow.graph import constants
from tests.tensorflow.graph.harness import build, inputs, prepared, v1


def test_what_a_constant_waits_for_moves_to_its_users() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")
        with tf.control_dependencies([tf.abs(x, name="a")]):
            c = tf.constant([2], name="c")
        tf.reshape(x, c, name="y")

    v, f, placed = prepared(build(make))
    constants.free(v, f, placed)
    assert inputs(v.by_name["c"]) == [] and inputs(v.by_name["y"]) == ["x", "c", "^a"]


def test_a_constant_stays_in_its_branch() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")
        p = v1.placeholder(tf.bool, (), "p")
        v1.cond(p, lambda: tf.abs(x) + 1.0, lambda: x, name="c")

    v, f, placed = prepared(build(make))
    constants.free(v, f, placed)
    constant = next(n for n in v.alive() if n.op == "Const")
    assert f.holds(f.classes[constant], [], constant.controls) and constant.controls


def test_a_folded_constant_in_a_loop_waits_for_the_iteration_instead() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")

        def body(i: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            a = tf.abs(y, name="a")
            with tf.control_dependencies([a]):
                c = tf.constant([1.0, 2.0], name="c")
            return i + 1, tf.multiply(y, c, name="y")

        v1.while_loop(lambda i, y: i < 3, body, [0, x], name="w")

    v, f, placed = prepared(build(make))
    constants.free(v, f, placed)
    constant = v.by_name["w/c"]
    assert inputs(v.by_name["w/y"]) == ["w/Identity_1", "w/c", "^w/a"]
    assert [c.name for c in constant.controls] == ["w/Identity"]  # as TensorFlow holds its own constants
    assert f.holds(f.classes[constant], [], constant.controls)
