from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from habana_tf.tensorflow.clusters.cluster import TensorFlowCluster, parse
from habana_tf.tensorflow.graph import launch_nodes, partition, pipeline
from habana_tf.tensorflow.graph.view import View
from tests.tensorflow.graph.harness import CPU, HPU, Item, build, cluster_ops, launches, prepared, read, v1, variable


def encapsulated(
    make: Callable[[], object], cpu: tuple[str, ...] = ()
) -> tuple[graph_pb2.GraphDef, list[launch_nodes.LaunchNode]]:
    v, f, placed = prepared(build(make, cpu))
    made = launch_nodes.encapsulate(v, f, partition.grow(v, f, placed))
    out = graph_pb2.GraphDef.FromString(v.write())
    View(out).topological()
    return out, made


def by_name(graph: graph_pb2.GraphDef) -> dict[str, list[str]]:
    return {n.name: list(n.input) for n in graph.node}


def test_members_become_one_launch_named_by_content() -> None:
    def make(prefix: str = "") -> None:
        x = v1.placeholder(tf.float32, (2,), f"{prefix}x")
        v1.py_func(lambda a: a, [tf.tanh(tf.abs(x, name=f"{prefix}a") * 2.0)], tf.float32, name="seen")

    out, made = encapsulated(make)
    (node,) = launches(out)
    assert node.name == made[0].name and node.name.startswith("cluster_") and node.device == HPU
    assert cluster_ops(node) == ["Abs", "Mul", "Tanh"]
    assert made[0].ops == {"Abs": 1, "Mul": 1, "Tanh": 1}
    assert list(node.input) == ["x"] and by_name(out)["seen"] == [node.name]
    assert not any(n.op == "Const" for n in out.node)  # taken along
    assert node.attr["cluster_name"].s.decode() == node.name
    other, _ = encapsulated(lambda: make("other_"))
    assert launches(other)[0].name == node.name


def test_what_is_read_from_a_variable_is_marked() -> None:
    """Also where the cluster does not update it: a range of sizes is never one of a variable's."""

    def make() -> None:
        x = v1.placeholder(tf.float32, (None, 4), "x")
        w = read(variable("w", (4, 3)), "read")
        v1.py_func(lambda a: a, [tf.tanh(tf.matmul(x, w))], tf.float32, name="seen")

    out, _ = encapsulated(make)
    (node,) = launches(out)
    inputs = parse(node.attr["cluster"].s).inputs
    assert {(a.name, a.variable) for a in inputs} == {("x", False), ("read", True)}


def test_control_edges_in_and_out() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")
        with tf.control_dependencies([v1.py_func(lambda a: a, [x], tf.float32, name="first")]):
            y = tf.abs(x, name="y")
        z = tf.tanh(y, name="z")
        with tf.control_dependencies([z]):
            v1.py_func(lambda a: a, [x], tf.float32, name="then")

    out, _ = encapsulated(make)
    (node,) = launches(out)
    assert list(node.input) == ["x", "^first"]
    assert by_name(out)["then"] == ["x", f"^{node.name}"]


def test_host_and_device_arguments_and_results() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (4,), "x")
        shape = v1.placeholder(tf.int64, (2,), "shape")
        n = v1.placeholder(tf.int32, (), "n")
        y = tf.reshape(tf.abs(x), shape * tf.constant([1, 1], tf.int64))
        k = tf.bitwise.bitwise_and(tf.shape(y)[0], n, name="k")
        v1.py_func(lambda a, b: a, [y, k], tf.float32, name="seen")

    out, _ = encapsulated(make)
    (node,) = launches(out)
    assert list(node.input) == ["x", "shape", "n"] or list(node.input) == ["x", "n", "shape"]
    types = {k: list(node.attr[k].list.type) for k in ("Tin", "Thost", "Tout", "Thost_out")}
    assert types["Tin"] == [1] and sorted(types["Thost"]) == [3, 9]
    assert types["Tout"] == [1] and types["Thost_out"] == [3]
    parsed = parse(node.attr["cluster"].s)
    fixed = {parsed.inputs[i].name for i in parsed.fixed_inputs()}
    assert fixed == {"shape"}
    assert {a.name for a in parsed.inputs if a.host} == {"shape", "n"}


def test_what_fixes_a_shape_is_found_through_the_first_node_too() -> None:
    def make() -> None:
        shape = v1.placeholder(tf.int64, (2,), "shape")
        x = v1.placeholder(tf.float32, (4,), "x")
        v1.py_func(lambda a: a, [tf.abs(tf.reshape(x, shape + shape))], tf.float32, name="seen")

    out, _ = encapsulated(make)
    (node,) = launches(out)
    parsed = parse(node.attr["cluster"].s)
    assert parsed.nodes[0].op == "AddV2"
    assert [parsed.inputs[i].name for i in parsed.fixed_inputs()] == ["shape"]


def test_copies_are_seen_through() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")
        y = tf.abs(tf.identity(x, "in"), name="y")
        v1.py_func(lambda a: a, [tf.identity(y, "out")], tf.float32, name="seen")

    out, _ = encapsulated(make)
    (node,) = launches(out)
    assert cluster_ops(node) == ["Abs"] and list(node.input) == ["x"] and by_name(out)["seen"] == [node.name]


@pytest.mark.parametrize(("limit", "inputs"), [(None, ["x", "big"]), ("1000000", ["x"]), ("0", ["x", "big"])])
def test_a_large_constant_is_an_argument(monkeypatch: pytest.MonkeyPatch, limit: str | None, inputs: list[str]) -> None:
    if limit is not None:
        monkeypatch.setenv("TF_MAX_CONST_SIZE_IN_CLUSTER", limit)
    big = np.arange((1 << 14) + 1, dtype="f4")

    def make() -> None:
        x = v1.placeholder(tf.float32, (), "x")
        tf.abs(x + tf.constant(big, name="big"), name="y")

    out, _ = encapsulated(make)
    assert list(launches(out)[0].input) == inputs


def test_equal_clusters_share_the_name_of_the_content() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")
        y = tf.tanh(tf.abs(x, name="a"), name="cpu")
        tf.tanh(tf.abs(y, name="b"), name="cpu2")

    out, made = encapsulated(make, cpu=("cpu", "cpu2"))
    assert len({m.name for m in made}) == 1 and [n.name for n in launches(out)] == [made[0].name, made[0].name + "_2"]


def test_random_ops_are_not_doubled() -> None:
    def make() -> None:
        r = tf.random.uniform((2,), seed=3, name="r")
        a = tf.abs(r, name="a")
        tf.abs(tf.tanh(a, name="cpu") + r, name="b")

    _out, made = encapsulated(make, cpu=("cpu",))
    assert sum(m.ops.get("RandomUniform", 0) for m in made) == 1


def test_several_outputs_and_versions() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2, 2), "x")
        top, at = tf.math.top_k(x, 1, name="top")
        v1.py_func(lambda a, b: a, [top * 2.0, at], tf.float32, name="seen")

    graph = build(make)
    data = pipeline.optimize(graph.SerializeToString(), Item())
    if data is None:
        return
    out = graph_pb2.GraphDef.FromString(data)
    assert out.versions == graph.versions
    assert all(n.device in (HPU, CPU) for n in out.node)


def test_a_launch_reads_what_another_made() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")
        a = tf.abs(x, name="a")
        tf.add(tf.tanh(a, name="cpu"), a, name="b")

    out, _ = encapsulated(make, cpu=("cpu",))
    first, second = launches(out)
    assert sorted(second.input) == sorted(["cpu", first.name])


def test_what_a_constant_in_a_loop_waits_for_the_launch_waits_for() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")

        def body(i: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            with tf.control_dependencies([v1.py_func(lambda a: a, [y], tf.float32, name="seen")]):
                return i + 1, tf.tanh(y * 2.0)  # the edge is at the constant

        v1.while_loop(lambda i, y: i < 3, body, [0, x], name="w")

    out, _ = encapsulated(make)
    (node,) = launches(out)
    assert cluster_ops(node) == ["Mul", "Tanh"]
    assert "^w/seen" in node.input


def test_a_predicate_that_only_decides_is_made_in_host_memory() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")
        v1.while_loop(lambda y: tf.logical_and(tf.reduce_sum(y) < 9.0, y[0] < 5.0), lambda y: y + 1.0, [x], name="w")
        p = tf.greater(x, 0.0, name="p")
        tf.raw_ops.Switch(data=x, pred=tf.reduce_all(p, name="all"), name="s")
        v1.py_func(lambda a: a, [p], tf.bool, name="seen")

    out, _ = encapsulated(make)
    outputs = {tuple(n.op for n in graph_pb2.GraphDef.FromString(node.attr["cluster"].s).node if n.op in ("All", "Add",
               "LogicalAnd")): (len(node.attr["Tout"].list.type), len(node.attr["Thost_out"].list.type))
               for node in launches(out)}  # fmt: skip
    assert outputs[("LogicalAnd",)] == (0, 1)
    assert outputs[("All",)] == (1, 1)  # `p` goes elsewhere too


def test_constants_without_elements_and_with_more_values_than_elements_are_taken_along() -> None:
    """TensorFlow's constant folding keeps the value of a constant that repeats it no times."""

    def make() -> None:
        x = v1.placeholder(tf.float32, (3,), "x")
        whole = tf.concat([x, tf.constant([], tf.float32, name="none")], 0)
        tf.add(whole, tf.constant([1.0, 2.0, 3.0], name="c"), name="y")

    graph = build(make)
    for node in graph.node:
        if node.name == "none":
            node.attr["value"].tensor.float_val.append(1.0)
    v, f, placed = prepared(graph)
    launch_nodes.encapsulate(v, f, partition.grow(v, f, placed))
    (node,) = launches(graph_pb2.GraphDef.FromString(v.write()))
    arrays = [n.attrs["value"] for n in parse(node.attr["cluster"].s).nodes if n.op == "Const"]
    assert sorted(a.size for a in arrays if a.dtype == np.float32) == [0, 3]


def test_a_constant_that_cannot_be_read_stays_outside() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (3,), "x")
        tf.tanh(x + tf.constant([1.0, 2.0, 3.0], name="c"), name="y")

    graph = build(make)
    for node in graph.node:
        if node.name == "c":
            node.attr["value"].tensor.tensor_content = b"short"
    v, f, placed = prepared(graph)
    launch_nodes.encapsulate(v, f, partition.grow(v, f, placed))
    (node,) = launches(graph_pb2.GraphDef.FromString(v.write()))
    assert sorted(node.input) == ["c", "x"] and cluster_ops(node) == ["AddV2", "Tanh"]


def test_a_cluster_that_cannot_be_read_is_not_made(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (3,), "x")
        tf.tanh(tf.sin(x), name="y")

    def fail(data: bytes) -> TensorFlowCluster:
        raise TypeError("unheard of")

    monkeypatch.setattr(launch_nodes, "parsed", fail)
    with caplog.at_level("WARNING", logger="habana_tf"):
        assert pipeline.optimize(build(make).SerializeToString(), Item(fetch=["y"])) is None
    assert "unheard of" in caplog.text and "one by one" in caplog.text
