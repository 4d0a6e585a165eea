"""Assignments whose value nobody sees are dropped, and only these."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from habana_tf.tensorflow.graph import variables
from tests.tensorflow.graph.harness import build, inputs, prepared, read, v1, variable

raw = tf.raw_ops


def assigns(make: Callable[[], None]) -> tuple[list[str], dict[str, list[str]]]:
    """The assignments that are left, and what each node of the graph waits for."""
    view, flow, placed = prepared(build(make), ["end"])
    variables.convert(view, flow, placed)
    view.topological()
    left = sorted(n.name for n in view.alive() if n.op == "AssignVariableOp")
    return left, {n.name: inputs(n) for n in view.alive()}


def moments(seen: Callable[[tf.Tensor], None] = lambda v: None) -> Callable[[], None]:
    """A variable that is changed as a whole, and then in some rows; between the two `seen` is made."""

    def make() -> None:
        x, v = v1.placeholder(tf.float32, (4, 2), "x"), variable("v", (4, 2))
        with tf.control_dependencies([raw.AssignAddVariableOp(resource=v, value=x, name="all")]):
            seen(v)
            rows = raw.ResourceScatterAdd(resource=v, indices=tf.constant([1, 1]), updates=x[:2], name="rows")
        with tf.control_dependencies([rows]):
            tf.no_op("end")

    return make


def test_the_last_assignment_counts() -> None:
    left, waits = assigns(moments())
    assert left == ["rows"]
    assert "^rows" in waits["end"] and "all" not in waits


def test_a_value_that_another_op_may_see_is_assigned() -> None:
    def seen(v: tf.Tensor) -> None:
        look = tf.function(lambda handle: raw.ReadVariableOp(resource=handle, dtype=tf.float32))
        called = look.get_concrete_function(tf.TensorSpec((), tf.resource))
        raw.StatefulPartitionedCall(args=[v], Tout=[tf.float32], f=called, name="look")

    assert assigns(moments(seen))[0] == ["all", "rows"]


def test_nothing_is_dropped_beside_python() -> None:
    def seen(v: tf.Tensor) -> None:
        tf.py_function(lambda: None, [], [], name="python")

    assert assigns(moments(seen))[0] == ["all", "rows"]


def test_what_no_other_assignment_waits_for_stays() -> None:
    def make() -> None:
        x, v = v1.placeholder(tf.float32, (4, 2), "x"), variable("v", (4, 2))
        raw.AssignVariableOp(resource=v, value=x, name="one")
        raw.AssignVariableOp(resource=v, value=-x, name="other")

    assert assigns(make)[0] == ["one", "other"]


def test_a_read_behind_the_last_one_gets_its_value() -> None:
    def make() -> None:
        moments()()
        with tf.control_dependencies([v1.get_default_graph().get_operation_by_name("rows")]):
            tf.identity(read(v1.get_default_graph().get_tensor_by_name("v:0"), "after"), "y")

    left, waits = assigns(make)
    assert left == ["rows"] and "after" not in waits
