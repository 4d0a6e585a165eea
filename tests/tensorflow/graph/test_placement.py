from __future__ import annotations

import pytest
import tensorflow as tf

from habana_tf.tensorflow.graph import ops, placement
from habana_tf.tensorflow.graph.reasons import Reason
from tests.tensorflow.graph.harness import build, inputs, read, v1, variable, view


def reasons(make: object, *settings: str, cpu: tuple[str, ...] = ()) -> tuple[dict[str, Reason | None], dict[str, str]]:
    assert callable(make)
    v = view(build(make, cpu))
    got = placement.place(v, settings)
    return {n.name: r for n, r in got.reasons.items()}, {n.name: ops.device_type(n.device) for n in v.nodes}


def mixed() -> None:
    x = v1.placeholder(tf.float32, (2,), "x")
    tf.nn.relu(x, name="relu")
    tf.nn.relu(x, name="pinned")
    tf.identity(v1.placeholder(tf.complex64, (2,), "z"), name="complex")
    tf.strings.as_string(x, name="text")
    tf.raw_ops.EmptyTensorList(element_shape=[2], max_num_elements=3, element_dtype=tf.float32, name="list")
    v1.py_func(lambda a: a, [x], tf.float32, name="python")
    handle = variable("v", (2,))
    read(handle, "r")
    tf.raw_ops.AssignAddVariableOp(resource=handle, value=x, name="update")
    tf.raw_ops.IteratorGetNext(
        iterator=tf.raw_ops.IteratorV2(
            shared_name="i", container="", output_types=[tf.float32], output_shapes=[(2,)], name="iterator"
        ),
        output_types=[tf.float32],
        output_shapes=[(2,)],
        name="next",
    )


def test_candidates_and_reasons() -> None:
    got, _ = reasons(mixed, cpu=("pinned",))
    assert "relu" not in got and "update" not in got
    assert got["pinned"] is Reason.PLACED_ON_CPU
    assert got["complex"] is Reason.DTYPE
    assert got["text"] is Reason.STRING
    assert got["list"] is Reason.VARIANT
    assert got["python"] is Reason.SIDE_EFFECT
    assert got["next"] is Reason.RESOURCE
    assert got["x"] is None and got["v"] is None and got["r"] is None


def test_the_shape_of_what_is_in_host_memory_is_nothing_to_mend() -> None:
    def make() -> None:
        host, card = v1.placeholder(tf.float32, (None,), "host"), v1.placeholder(tf.float32, (None,), "card")
        tf.shape(host, name="size")
        tf.reshape(card, [-1], name="fetched")
        tf.nn.relu(host, name="work")

    got, _ = reasons(make, cpu=("host", "size", "fetched", "work", "fetched/shape"))
    assert got["size"] is Reason.TRIVIAL
    assert got["fetched"] is got["work"] is Reason.PLACED_ON_CPU, "a copy from the card, and work"


@pytest.mark.parametrize(
    ("op", "expected"),
    [("Erf", True), ("While", True), ("Switch", True), ("Reshape", False), ("Identity", False), ("Const", False),
     ("StatefulPartitionedCall", False), ("TensorListStack", False), ("ReadVariableOp", False), ("Assert", False)],
)  # fmt: skip
def test_what_a_device_has_to_have(op: str, expected: bool) -> None:
    assert placement.needs_support(op) is expected


def test_printing_and_assertions_are_effects_though_they_have_texts() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")
        text = tf.strings.as_string(x, name="text")
        tf.raw_ops.PrintV2(input=tf.strings.reduce_join(text), name="print")
        tf.raw_ops.Assert(condition=v1.placeholder(tf.bool, (), "p"), data=["wrong"], name="assert")
        tf.raw_ops.WriteFile(filename="f", contents="c", name="file")

    got, _ = reasons(make, cpu=("text", "print", "file"))
    assert got["print"] is got["assert"] is got["file"] is Reason.SIDE_EFFECT
    assert got["text"] is Reason.STRING


def test_float64_has_its_reason_and_int64_indices_stay() -> None:
    """TensorFlow's placer has put what has no kernel on the CPU already."""

    def make() -> None:
        tf.nn.relu(v1.placeholder(tf.float64, (2,), "d"), name="double")
        tf.gather(v1.placeholder(tf.float32, (2,), "x"), v1.placeholder(tf.int64, (3,), "i"), name="rows")

    got, _ = reasons(make, cpu=("double",))
    assert got["double"] is Reason.DTYPE
    assert "rows" not in got


def test_an_op_without_any_kernel_goes_to_the_cpu() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2, 2), "x")
        tf.raw_ops.Svd(input=x, name="svd")
        tf.linalg.det(x, name="det")

    got, where = reasons(make)
    assert got["svd"] is got["det"] is Reason.CORE_REWRITE
    assert where["svd"] == where["det"] == "CPU" and where["x"] == "HPU"


def test_what_tensorflow_runs_in_host_memory_is_the_hosts() -> None:
    """It has kernels for such ops under every device; shapes, copies and control flow are no work of anybody."""

    def make() -> None:
        x = v1.placeholder(tf.float32, (None,), "x")
        i = v1.placeholder(tf.int32, (None,), "i")
        tf.unique(i, name="unique")
        tf.raw_ops.UniqueV2(x=x, axis=[0], name="unique_v2")
        tf.raw_ops.Where(condition=i, name="where")
        tf.shape(v1.placeholder(tf.complex64, (None,), "z"), name="shape")
        tf.identity(v1.placeholder(tf.string, (None,), "s"), name="copy")
        tf.raw_ops.Assert(condition=tf.equal(tf.size(i), 1), data=["a message", i], name="assert")
        v1.case([(tf.equal(tf.size(i), 1), lambda: i)], default=lambda: i + 1)
        tf.identity(i + i, name="sum")

    v = view(build(make))
    got = placement.place(v)
    host = {n.name: r for n, r in got.reasons.items() if r is not None and placement.of_the_host(n, r)}
    assert host == {"unique": Reason.NO_ROW, "where": Reason.NO_ROW, "unique_v2": Reason.CORE_REWRITE}
    assert [n.name for n in v.nodes if ops.device_type(n.device) == "CPU"] == ["unique_v2"]  # the others stay


def test_place_on_cpu_takes_ops_or_everything_but_what_must_stay_with_its_variable() -> None:
    got, where = reasons(mixed, "Relu")
    assert got["relu"] is Reason.SETTING and where["relu"] == "CPU" and "update" not in got
    got, where = reasons(mixed, "all_nodes")
    assert where["relu"] == "CPU" and where["update"] == where["v"] == where["r"] == "HPU"
    assert "update" not in got


def test_a_preserved_op_computes_under_another_name() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (2,), "x")
        y = tf.nn.relu(x, name="y")
        tf.abs(y, name="z")

    v = view(build(make), preserve=["y"])
    got = placement.place(v)
    placement.keep_names(v, got)
    assert got.takes(v.by_name["y/compute"]) and not got.takes(v.by_name["y"])
    assert inputs(v.by_name["y"]) == ["y/compute"] and inputs(v.by_name["z"]) == ["y/compute"]


def test_rescue_leaves_a_graph_whose_nodes_have_kernels() -> None:
    def fine() -> None:
        tf.nn.relu(v1.placeholder(tf.float32, (2,), "x"))

    def broken() -> None:
        tf.linalg.det(v1.placeholder(tf.float32, (2, 2), "x"), name="det")

    assert placement.rescue(view(build(fine))) == 0
    v = view(build(broken))
    assert placement.rescue(v) == 1 and ops.device_type(v.by_name["det"].device) == "CPU"


@pytest.mark.parametrize("device", ["/job:worker/replica:0/task:3/device:HPU:0", "/device:HPU:0"])
def test_the_cpu_of_a_task(device: str) -> None:
    assert ops.on_cpu(device) == device.replace("HPU", "CPU")
