from __future__ import annotations

import random

import pytest
import tensorflow as tf

from habana_tf.tensorflow.graph.view import View, natural
from tests.tensorflow.graph.harness import build, inputs, v1, view


def chain() -> None:
    x = v1.placeholder(tf.float32, (2,), "x")
    a, b = tf.split(x, 2, name="s")
    with tf.control_dependencies([tf.abs(a, name="a")]):
        tf.identity(b, "y")


def test_reads_data_and_control_edges() -> None:
    v = view(build(chain))
    assert inputs(v.by_name["y"]) == ["s:1", "^a"]
    assert v.by_name["y"].inputs == [(v.by_name["s"], 1)]


def test_writes_what_it_read() -> None:
    graph = build(chain)
    graph.versions.producer = 1234
    written = graph.FromString(view(graph).write())
    assert {n.name: n for n in written.node} == {n.name: n for n in graph.node}
    assert written.versions.producer == 1234


def test_writes_what_changed_and_nothing_else() -> None:
    graph = build(chain)
    v = view(graph)
    y = v.by_name["y"]
    y.inputs, y.controls, y.device = [(v.by_name["x"], 0)], [], "/device:CPU:0"
    new = v.add("y", "NoOp", "/device:HPU:0")
    new.add_control(y)
    new.add_control(y)
    v.remove(v.by_name["a"])
    written = {n.name: n for n in graph.FromString(v.write()).node}
    assert list(written["y"].input) == ["x"] and written["y"].device == "/device:CPU:0"
    assert list(written["y_1"].input) == ["^y"]
    assert "a" not in written and written["x"] == next(n for n in graph.node if n.name == "x")


def test_order_depends_on_names_and_edges_only() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")
        ys = [tf.nn.relu(x, name=f"y_{k}") for k in range(12)]
        tf.add_n(ys, name="sum")

    graph = build(make)
    expected = [n.name for n in view(graph).topological()]
    assert expected.index("y_9") < expected.index("y_10")
    nodes = list(graph.node)
    random.Random(0).shuffle(nodes)
    shuffled = type(graph)(node=nodes)
    assert [n.name for n in view(shuffled).topological()] == expected


def test_topological_order_passes_loops_and_finds_cycles() -> None:
    def make() -> None:
        v1.while_loop(lambda i: i < 3, lambda i: i + 1, [0], name="w")

    order = [n.name for n in view(build(make)).topological()]
    assert order.index("w/Merge") < order.index("w/Less") < order.index("w/Exit")
    v = view(build(chain))
    v.by_name["x"].add_control(v.by_name["y"])
    with pytest.raises(ValueError, match="cycle"):
        v.topological()


def test_exits_come_after_all_their_loop_does() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (), "x")

        def body(i: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return i + 1, v1.while_loop(lambda z: z < 9.0, lambda z: z + x, [y], name="inner")

        v1.while_loop(lambda i, y: i < 3, body, [0, 0.0], name="w")

    v = view(build(make))
    found = {n.name: sorted(e.name for e in later) for n, later in v.exits(v.consumers()).items()}
    outer = ["w/Exit", "w/Exit_1"]
    inner = ["w/inner/Exit"]
    assert found == {
        "w/Enter": outer, "w/Enter_1": outer, "w/NextIteration": outer, "w/NextIteration_1": outer,
        "w/inner/add/Enter": outer, "w/inner/Enter": inner, "w/inner/add/Enter_1": inner,
        "w/inner/NextIteration": inner,
    }  # fmt: skip
    order = [n.name for n in v.topological()]
    assert order.index("w/inner/add") < order.index("w/inner/Exit") < order.index("w/NextIteration_1")
    assert order.index("w/NextIteration_1") < order.index("w/Exit")


def test_a_loop_is_whole_though_its_condition_is_a_variable_that_nothing_else_reads() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")

        def body(go: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return tf.reduce_any(y < 9.0, name="go"), y + x

        v1.while_loop(lambda go, y: go, body, [True, x], name="w")

    graph = build(make)
    for node in graph.node:  # as TensorFlow prunes it: what is left of the variable is the LoopCond's input
        if node.op == "LoopCond":
            node.input[0] = "w/Merge"
    kept = [n for n in graph.node if n.name not in ("w/Switch", "w/Identity", "w/Exit")]
    for node in kept:
        for k, name in enumerate(node.input):
            if name == "^w/Identity":
                node.input[k] = "^w/Identity_1"
    v = view(type(graph)(node=kept))
    found = {n.name: [e.name for e in later] for n, later in v.exits(v.consumers()).items()}
    parts = ["w/Enter", "w/Enter_1", "w/add/Enter", "w/NextIteration", "w/NextIteration_1"]
    assert found == {part: ["w/Exit_1"] for part in parts}


def test_a_loop_begins_with_all_it_is_given_also_with_what_its_body_does_not_read() -> None:
    """y reaches no iteration but the first, and the other variable's Exit not at all: it comes before it anyway."""

    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")
        y = tf.exp(x, name="y")
        v1.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, x), [0, y], name="w")

    v = view(build(make))
    assert [n.name for n in v.exits(v.consumers())[v.by_name["w/Enter_1"]]] == ["w/Exit", "w/Exit_1"]
    v.by_name["y"].add_control(v.by_name["w/Exit"])
    with pytest.raises(ValueError, match="cycle"):
        v.topological()


def test_natural_order() -> None:
    assert sorted(["dense_10", "dense_9", "dense", "a1b2", "a1b10"], key=natural) == [
        "a1b2", "a1b10", "dense", "dense_9", "dense_10",
    ]  # fmt: skip


def test_front_keeps_the_name_and_leaves_users_alone() -> None:
    v: View = view(build(chain))
    s, y = v.by_name["s"], v.by_name["y"]
    front = v.front(s, 1)
    assert (front.name, s.name) == ("s", "s/compute") and inputs(front) == ["s/compute"]
    assert inputs(y) == ["s/compute:1", "^a"]
