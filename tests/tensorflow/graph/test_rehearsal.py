"""The pass rehearsed: every graph is shown once, with its sizes, and variables may count as on the card."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tests.child import on_hpu


@on_hpu
def test_variables_on_the_cpu_count_as_on_the_card_if_asked() -> None:
    from habana_tf.tensorflow.graph.rehearsal import rehearse

    with tf.device("/CPU:0"):
        v = tf.Variable(tf.ones((8, 8)))

    @tf.function
    def f(x: Any) -> None:
        v.assign_add(tf.matmul(x, v))

    function = f.get_concrete_function(tf.TensorSpec((8, 8)))
    seen: list[Any] = []
    for moved in (False, True):
        rehearse(function, lambda record, view, shapes: seen.append((record, view, shapes)), moved)
    here, there = (record for record, _, _ in seen)
    assert ("AssignAddVariableOp" in {op for op, _, cpu in here.refused if cpu}) and not there.refused
    (launch,) = [node for node in seen[1][1].alive() if node.op == "HpuLaunch"]
    assert {ref[0].op for ref in launch.inputs} == {"Placeholder", "ReadVariableOp"}
