"""Copies of handles, as inlined functions have them, are in nobody's way."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from habana_tf.tensorflow.graph import handle_copies, pipeline
from habana_tf.tensorflow.graph.view import View
from tests.tensorflow.graph.harness import Item, build, inferred, inputs, launches, run, v1, variable

raw = tf.raw_ops


def test_readers_take_the_handle_itself_and_wait_for_what_the_copy_waited_for() -> None:
    def make() -> None:
        x, v = v1.placeholder(tf.float32, (2,), "x"), variable("v", (2,))
        with tf.control_dependencies([raw.AssignAddVariableOp(resource=v, value=x, name="first")]):
            copy = tf.identity(tf.identity(v, "outer"), "copy")
        read = raw.ReadVariableOp(resource=copy, dtype=tf.float32, name="read")
        with tf.control_dependencies([copy]):
            tf.tanh(read, name="y")
        tf.identity(x, "value")

    view = View.parse(build(make).SerializeToString())
    assert handle_copies.bypass(view) == 2
    assert {"outer", "copy"}.isdisjoint(view.by_name) and "value" in view.by_name
    assert inputs(view.by_name["read"]) == ["v", "^first"]
    assert inputs(view.by_name["y"]) == ["read", "^first"]
    assert handle_copies.bypass(view) == 0


def test_what_is_fetched_or_chosen_stays() -> None:
    def make() -> None:
        flag, v, w = v1.placeholder(tf.bool, (), "flag"), variable("v"), variable("w")
        tf.identity(v, "fetched")
        chosen = v1.cond(flag, lambda: tf.identity(v, "left"), lambda: tf.identity(w, "right"))
        raw.ReadVariableOp(resource=chosen, dtype=tf.float32, name="read")

    view = View.parse(build(make).SerializeToString(), fetched=frozenset({"fetched"}))
    handle_copies.bypass(view)
    assert {"fetched", "cond/left", "cond/right"} <= set(view.by_name)


def test_a_variable_that_is_updated_before_a_call_leaves_the_step_whole() -> None:
    """As decayed weights: the copy waited for the first update, and was in no cluster."""

    def make() -> None:
        x, v = v1.placeholder(tf.float32, (2,), "x"), variable("v", (2,))
        before = raw.ReadVariableOp(resource=v, dtype=tf.float32)
        with tf.control_dependencies([raw.AssignSubVariableOp(resource=v, value=before * 0.1, name="decay")]):
            copy = tf.identity(v, "copy")
        now = raw.ReadVariableOp(resource=copy, dtype=tf.float32)
        raw.AssignSubVariableOp(resource=copy, value=tf.tanh(now) * x, name="step")

    graph = build(make)
    item = Item(["decay", "step"], ["step"], inferred(graph))
    made = pipeline.optimize(graph.SerializeToString(), item)
    assert made is not None
    after = graph_pb2.GraphDef.FromString(made)
    assert len(launches(after)) == 1
    (_, want), (_, got) = (
        run(g, ["step"], {"x": np.array([1.0, -2.0], "f4")}, {"v": [0.5, 1.0]}) for g in (graph, after)
    )
    np.testing.assert_allclose(got["v"], want["v"], rtol=1e-6)
