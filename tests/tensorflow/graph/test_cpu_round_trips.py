from __future__ import annotations

import tensorflow as tf

from habana_tf.tensorflow.graph import cpu_round_trips
from tests.tensorflow.graph.harness import build, inputs, prepared, v1


def test_hpu_reads_past_a_copy_on_the_cpu() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")
        copy = tf.identity(tf.abs(x, name="a"), "copy")
        tf.tanh(copy, name="y")
        kept = tf.identity(x, "kept")
        tf.tanh(kept, name="z")
        tf.tanh(kept, name="cpu")
        with tf.control_dependencies([tf.abs(x)]):
            waits = tf.identity(x, "waits")
        tf.tanh(waits, name="w")

    v, _, placed = prepared(build(make, cpu=("copy", "kept", "cpu", "waits")))
    cpu_round_trips.bypass(v, placed)
    assert inputs(v.by_name["y"]) == ["a"] and "copy" not in v.by_name
    assert inputs(v.by_name["z"]) == ["x"] and inputs(v.by_name["cpu"]) == ["kept"]
    assert inputs(v.by_name["w"]) == ["waits"]
