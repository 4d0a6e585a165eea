from __future__ import annotations

import tensorflow as tf

from habana_tf.tensorflow.graph import ops
from tests.tensorflow.graph.harness import build, v1, view


def test_types_and_arguments_of_lists() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2, 2), "x")
        tf.concat([x, x, x], 0, name="c")
        tf.raw_ops.IdentityN(input=[x, tf.constant(1), tf.constant(True)], name="n")
        tf.split(x, 2, name="s")

    v = view(build(make))
    assert ops.input_types(v.by_name["c"]) == [1, 1, 1, 3]
    assert ops.argument_names(v.by_name["c"]) == ["values"] * 3 + ["axis"]
    assert ops.output_types(v.by_name["n"]) == [1, 3, 10] == ops.input_types(v.by_name["n"])
    assert ops.output_names(v.by_name["s"]) == ["output", "output"]
    assert ops.facts("NoSuchOp") is None


def test_devices() -> None:
    assert ops.device_type("/job:w/replica:0/task:1/device:HPU:0") == "HPU"
    assert ops.device_type("") == ""
    assert ops.on_cpu("/job:w/replica:0/task:1/device:HPU:0") == "/job:w/replica:0/task:1/device:CPU:0"


def test_kernels_by_type() -> None:
    def make() -> None:
        tf.add(v1.placeholder(tf.int32, (), "i"), 1, name="int")
        tf.add(v1.placeholder(tf.float32, (), "f"), 1.0, name="float")

    v = view(build(make))
    assert ops.has_kernel(v.by_name["int"], "DEFAULT") and not ops.has_kernel(v.by_name["float"], "DEFAULT")
    assert ops.has_kernel(v.by_name["float"], "CPU")
