from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from habana_tf.tensorflow.graph import variables
from habana_tf.tensorflow.graph.reasons import Reason
from habana_tf.tensorflow.graph.view import View
from tests.tensorflow.graph.harness import build, inputs, prepared, run, v1, variable


def converted(make: Callable[[], object]) -> tuple[View, dict[str, Reason | None]]:
    v, f, placed = prepared(build(make))
    variables.convert(v, f, placed)
    v.topological()
    return v, {n.name: r for n, r in placed.reasons.items()}


def update(handle: tf.Tensor, value: tf.Tensor, name: str = "u") -> tf.Operation:
    return tf.raw_ops.AssignAddVariableOp(resource=handle, value=value, name=name)


def test_a_read_waits_for_its_iteration_and_the_next_one_for_the_assignment() -> None:
    def make() -> None:
        x, handle = v1.placeholder(tf.float32, (2,), "x"), variable("v", (2,))

        def body(i: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            update(handle, y)
            return i + 1, tf.tanh(y)

        v1.while_loop(lambda i, y: i < 3, body, [0, x], name="w")

    v, _ = converted(make)
    assert v.by_name["w/u"].op == "AssignVariableOp"
    assert inputs(v.by_name["w/u/read"]) == ["w/u/Enter", "^w/Merge", "^w/Merge_1"]
    for name in ("w/NextIteration", "w/NextIteration_1"):
        assert "^w/u" in inputs(v.by_name[name])


def test_in_nested_loops_the_handle_waits_for_the_outer_iteration() -> None:
    def make() -> None:
        x, handle = v1.placeholder(tf.float32, (2,), "x"), variable("v", (2,))

        def inner(y: tf.Tensor) -> tf.Tensor:
            with tf.control_dependencies([update(handle, y)]):
                return y * 2.0

        def body(i: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return i + 1, v1.while_loop(lambda y: tf.reduce_sum(y) < 9.0, inner, [y], name="inner")

        v1.while_loop(lambda i, y: i < 3, body, [0, x], name="w")

    v, _ = converted(make)
    read = v.by_name["w/inner/u/read"]
    assert [c.name for c in read.controls] == ["w/inner/Merge"]
    handle = read.inputs[0][0]
    assert handle.op == "Enter" and [c.name for c in handle.controls] == ["w/Merge", "w/Merge_1"]


def test_an_update_on_a_branch_nothing_waits_for_stays_one_op() -> None:
    def make() -> None:
        handle = variable("v", ())

        def body(i: tf.Tensor) -> tf.Tensor:
            yes = tf.raw_ops.Switch(data=tf.cast(i, tf.float32), pred=i > 1, name="s").output_true
            update(handle, yes)
            return i + 1

        v1.while_loop(lambda i: i < 3, body, [0], name="w")

    v, reasons = converted(make)
    assert v.by_name["w/u"].op == "AssignAddVariableOp"
    assert reasons["w/u"] is Reason.ORDER


def test_no_update_is_lost() -> None:
    """Many iterations side by side, on real executors, with the cluster opened up again."""

    def make() -> None:
        handle = variable("v", ())

        def body(i: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            update(handle, y)
            return i + 1, y + 1.0

        last = v1.while_loop(lambda i, y: i < 50, body, [0, 1.0], name="w", parallel_iterations=10)
        tf.identity(last[1], "y")

    from habana_tf.tensorflow.graph import pipeline
    from tests.tensorflow.graph.harness import Item, graph_pb2

    graph = build(make)
    out = pipeline.optimize(graph.SerializeToString(), Item(preserve=["w/u"], fetch=["y"]))
    assert out is not None
    _, values = run(graph_pb2.GraphDef.FromString(out), ["y"], variables={"v": 0.0})
    np.testing.assert_array_equal(values["v"], sum(range(1, 51)))
