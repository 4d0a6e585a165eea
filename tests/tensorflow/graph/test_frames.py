from __future__ import annotations

import tensorflow as tf

from habana_tf.tensorflow.graph import frames
from tests.tensorflow.graph.harness import build, v1, view


def classes(make: object) -> dict[str, frames.Class]:
    assert callable(make)
    return {n.name: c for n, c in frames.analyse(view(build(make))).classes.items()}


def test_without_control_flow_all_is_root() -> None:
    got = classes(lambda: tf.nn.relu(v1.placeholder(tf.float32, (2,), "x"), name="y"))
    assert set(got.values()) == {frames.ROOT}


def test_branches_differ_and_a_merge_joins_them() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")
        p = v1.placeholder(tf.bool, (), "p")
        a, b = tf.raw_ops.Switch(data=x, pred=p, name="s")
        yes, yes2 = tf.nn.relu(b, name="yes"), tf.abs(b, name="yes2")
        no = tf.negative(a, name="no")
        merged, _ = tf.raw_ops.Merge(inputs=[yes, no], name="m")
        tf.add(merged, x, name="after")
        tf.add(yes, yes2, name="in_yes")

    got = classes(make)
    assert got["yes"] == got["yes2"] == got["in_yes"] != got["no"]
    assert frames.ROOT not in (got["yes"], got["no"])
    assert got["m"] == got["after"] == frames.ROOT


def test_a_merge_of_unrelated_sides_has_a_condition_of_its_own() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")
        p, q = v1.placeholder(tf.bool, (), "p"), v1.placeholder(tf.bool, (), "q")
        a, _ = tf.raw_ops.Switch(data=x, pred=p, name="s")
        _, b = tf.raw_ops.Switch(data=x, pred=q, name="t")
        merged, _ = tf.raw_ops.Merge(inputs=[tf.abs(a), tf.abs(b)], name="m")
        tf.abs(merged, name="after")

    got = classes(make)
    assert got["m"] == got["after"] != frames.ROOT


def test_a_control_edge_from_a_branch_puts_a_node_there() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")
        p = v1.placeholder(tf.bool, (), "p")
        _, b = tf.raw_ops.Switch(data=x, pred=p, name="s")
        with tf.control_dependencies([tf.abs(b, name="yes")]):
            tf.constant(1.0, name="c")

    got = classes(make)
    assert got["c"] == got["yes"] != frames.ROOT


def test_a_loop_is_a_frame_and_exits_into_the_one_it_was_entered_from() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")
        _, y = v1.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(y, "t") + x), [0, x], name="w")
        tf.abs(y, name="after")

    got = classes(make)
    assert got["after"] == frames.ROOT == got["w/Exit"]
    assert got["w/t"] == got["w/add"] and got["w/t"][0] == 1
    assert got["w/Less"] != got["w/t"]  # it runs once more


def test_nested_branches() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")
        p, q = v1.placeholder(tf.bool, (), "p"), v1.placeholder(tf.bool, (), "q")
        inner = lambda: v1.cond(q, lambda: tf.abs(x, "abs"), lambda: tf.tanh(x, "tanh"), name="inner")
        tf.abs(v1.cond(p, inner, lambda: x * 2.0, name="outer"), name="after")

    got = classes(make)
    assert len({got["outer/inner/abs"], got["outer/inner/tanh"], got["outer/mul"], frames.ROOT}) == 4
    assert got["after"] == frames.ROOT


def test_holds() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")
        p = v1.placeholder(tf.bool, (), "p")
        _, b = tf.raw_ops.Switch(data=x, pred=p, name="s")
        tf.abs(b, name="yes")

    v = view(build(make))
    f = frames.analyse(v)
    yes, x = v.by_name["yes"], v.by_name["x"]
    assert f.holds(f.classes[yes], yes.inputs, [])
    assert f.holds(f.classes[yes], [], [yes])
    assert not f.holds(f.classes[yes], [(x, 0)], [])


def test_a_loop_variable_that_the_body_only_writes_is_of_its_iteration() -> None:
    """Its back edge may come first in the order: it depends on nothing that the variable held."""

    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")

        def body(i: tf.Tensor, y: tf.Tensor, z: tf.Tensor) -> tuple[tf.Tensor, ...]:
            return i + 1, y + x, tf.abs(y, name="written")

        v1.while_loop(lambda i, *_: i < 3, body, [0, x, tf.tanh(tf.tanh(tf.tanh(x)))], name="w")

    got = classes(make)
    assert len({c for n, c in got.items() if n.startswith("w/Merge")}) == 1
