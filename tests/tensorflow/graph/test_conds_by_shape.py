"""Conds that shapes decide: what is folded, what is not, and that the rest computes the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from habana_tf.tensorflow.graph import conds_by_shape, pipeline
from habana_tf.tensorflow.graph.shapes import Shapes
from tests.tensorflow.graph.harness import Item, build, inferred, launches, read, run, v1, variable, view

FEED = {"x": np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]], "f4"), "p": True}
VALUES = {"v": [1.0, 2.0]}


def folded(make: Callable[[], object], keep: tuple[str, ...] = ()) -> tuple[int, graph_pb2.GraphDef]:
    """(conds folded, the graph then); asserts that its node `last` and its variables are as without folding."""
    graph = build(make)
    names = {n.name for n in graph.node}
    v = view(graph, ["last", *keep])
    count = conds_by_shape.fold(v, Shapes(Item(shapes=inferred(graph))))
    out = graph_pb2.GraphDef.FromString(v.write())
    feed = {k: x for k, x in FEED.items() if k in names}
    values = {k: x for k, x in VALUES.items() if k in names}
    got, expected = (run(g, ["last"], feed, values) for g in (out, graph))
    np.testing.assert_array_equal(got[0][0], expected[0][0])
    for name, value in expected[1].items():
        np.testing.assert_array_equal(got[1][name], value)
    return count, out


def ops(graph: graph_pb2.GraphDef) -> set[str]:
    return {n.op for n in graph.node}


def pad_to_four(x: tf.Tensor) -> tf.Tensor:
    """Pads the columns to a multiple of four, if there is anything to pad: as windowed attention does."""
    width = tf.shape(x)[1]
    missing = (4 - width % 4) % 4
    return v1.cond(missing > 0, lambda: tf.pad(x, [[0, 0], [0, missing]]), lambda: x)


def test_a_chain_of_conds_each_on_the_shape_behind_the_one_before() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (None, 3), "x")
        y = pad_to_four(x)  # the shape behind it is known to nobody who does not know the branch
        for _ in range(3):
            y = pad_to_four(tf.concat([y, y[:, :1]], 1))
        tf.reduce_sum(y, name="last")

    count, out = folded(make)
    assert count == 4 and not ops(out) & {"Switch", "Merge"}
    assert sum(n.op == "Pad" for n in out.node) == 4


def test_extents_are_taken_out_of_a_shape_of_which_others_are_unknown() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (None, 3), "x")
        shape = tf.shape(x)
        wide = (tf.reduce_min(shape[1:]) > 4, tf.gather(shape, 1) > 2, tf.reduce_max(tf.gather(shape, [1])) > 4)
        for k, p in enumerate(wide):
            x = v1.cond(p, lambda x=x: tf.exp(x), lambda x=x: tf.tanh(x), name=f"c{k}")
        tf.reduce_sum(x, name="last")

    count, out = folded(make)
    assert count == 3 and sorted(n.op for n in out.node if n.op in ("Exp", "Tanh")) == ["Exp", "Tanh", "Tanh"]


def test_what_data_decide_stays_and_conds_inside_are_folded() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (None, 3), "x")
        p = v1.placeholder(tf.bool, (), "p")
        tf.reduce_sum(v1.cond(p, lambda: pad_to_four(x), lambda: x), name="last")

    count, out = folded(make)
    assert count == 1 and sum(n.op == "Merge" for n in out.node) == 1


def test_an_unknown_size_decides_nothing() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (None, 3), "x")
        tf.reduce_sum(v1.cond(tf.shape(x)[0] > 1, lambda: x * 2.0, lambda: tf.pad(x, [[0, 1], [0, 0]])), name="last")

    assert folded(make)[0] == 0


def test_writes_on_the_branch_that_goes_are_not_done_and_others_are() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (None, 3), "x")
        v = variable("v", (2,))
        y = pad_to_four(x)

        def write(value: list[float]) -> tf.Tensor:
            with tf.control_dependencies([tf.raw_ops.AssignAddVariableOp(resource=v, value=value)]):
                return read(v, "now")

        got = v1.cond(tf.shape(y)[1] > 3, lambda: write([1.0, 1.0]), lambda: write([50.0, 50.0]))
        tf.reduce_sum(got, name="last")

    count, out = folded(make)
    assert count == 2 and sum(n.op == "AssignAddVariableOp" for n in out.node) == 1


def test_a_node_that_must_keep_its_name_keeps_its_cond() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (None, 3), "x")
        tf.reduce_sum(v1.cond(tf.shape(x)[1] > 3, lambda: tf.tanh(x, name="kept"), lambda: x), name="last")

    assert folded(make, keep=("cond/kept",))[0] == 0


def test_the_pass_makes_one_launch_of_it() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (None, 3), "x")
        y = pad_to_four(tf.tanh(x))
        tf.reduce_sum(pad_to_four(tf.sin(y)), name="last")

    graph = build(make)
    out = pipeline.optimize(graph.SerializeToString(), Item(preserve=["last"], fetch=["last"], shapes=inferred(graph)))
    assert out is not None and len(launches(graph_pb2.GraphDef.FromString(out))) == 1


def test_a_cond_within_a_cond_on_the_same_predicate() -> None:
    """The Merge of the inner one has no side left that could come, and belongs to no branch by its inputs."""

    def make() -> None:
        x = v1.placeholder(tf.float32, (None, 3), "x")
        y = pad_to_four(x)
        wide = tf.shape(y)[1] > 3

        def inner() -> tf.Tensor:
            return v1.cond(wide, lambda: tf.pad(y, [[0, 1], [0, 0]]), lambda: tf.tanh(y))

        both = tf.reduce_sum(v1.cond(wide, lambda: y * 2.0, inner)) + tf.reduce_sum(v1.cond(wide, inner, lambda: y))
        tf.identity(both, name="last")

    count, out = folded(make)
    assert count >= 2 and not ops(out) & {"Switch", "Merge", "Tanh"}
