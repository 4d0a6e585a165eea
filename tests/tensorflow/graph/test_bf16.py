"""The bf16 conversion: which ops are converted and why, and that values are rounded where the casts are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from habana_tf.resolver.placement_report import placement_report
from habana_tf.tensorflow.graph import pipeline, report
from habana_tf.tensorflow.graph.bf16 import Why
from tests.tensorflow.graph.bf16_graphs import BF16, F32, FEED, X, config, converted, verdicts, x
from tests.tensorflow.graph.harness import Item, build, cluster_ops, launches, read, run, v1, variable

# --- values ---


def test_values_pass_rounded_between_converted_ops() -> None:
    def make() -> None:
        y = tf.nn.relu(tf.matmul(x(), np.full((4, 5), 0.3, "f4"), name="first"), name="relu")
        z = tf.matmul(y, np.full((5, 2), 0.7, "f4"), name="second")
        tf.identity(tf.exp(z, name="exp") + tf.reduce_sum(y), "last")

    cfg = config(allowlist=["MatMul"], conditional_list=["Relu"])
    out, done = converted(build(make), cfg)
    (got,), _ = run(out, ["last"], FEED)
    with tf.device("/CPU:0"):
        y = tf.nn.relu(tf.matmul(tf.cast(X, BF16), tf.cast(tf.fill((4, 5), 0.3), BF16)))
        z = tf.matmul(y, tf.cast(tf.fill((5, 2), 0.7), BF16))
        expected = tf.exp(tf.cast(z, F32)) + tf.reduce_sum(tf.cast(y, F32))
    np.testing.assert_array_equal(got, expected.numpy())
    assert done.casts == 5  # x and two constants down; y for the sum and z for the exponential up
    assert {n: w for (n, _), w in done.verdicts.items()} == {
        "first": Why.ALLOWED, "relu": Why.CONDITIONAL, "second": Why.ALLOWED, "exp": Why.UNLISTED, "Sum": Why.UNLISTED,
        "add": Why.UNLISTED, "last": Why.UNLISTED,
    }  # fmt: skip


# --- what is not converted ---


def test_variables_stay_fp32() -> None:
    def make() -> None:
        handle = variable("v", (4, 2))
        given = x()
        y = tf.matmul(given, read(handle, "read"), name="y")
        gradient = tf.matmul(given, y, transpose_a=True, name="gradient")
        tf.raw_ops.ResourceApplyGradientDescent(var=handle, alpha=0.5, delta=gradient, name="update")

    cfg = config(allowlist=["MatMul", "ReadVariableOp", "ResourceApplyGradientDescent"])
    out, done = converted(build(make), cfg)
    by_name = {n.name: n for n in out.node}
    assert by_name["read"].attr["dtype"].type == by_name["update"].attr["T"].type == F32.as_datatype_enum
    assert by_name["y"].input[1] == "read/to_bf16" and by_name["update"].input[2] == "gradient/to_fp32"
    assert done.verdicts["update", "ResourceApplyGradientDescent"] is Why.VARIABLE


def test_what_only_reads_a_variable_stays_fp32_too() -> None:
    def make() -> None:
        rows = tf.raw_ops.ResourceGather(
            resource=variable("v", (4, 3)), indices=tf.constant([1, 3]), dtype=tf.float32, name="rows"
        )
        tf.matmul(rows, x(), name="y")

    done = converted(build(make), config(allowlist=["MatMul", "ResourceGather"]))[1]
    assert done.verdicts["rows", "ResourceGather"] is Why.VARIABLE
    assert done.verdicts["y", "MatMul"] is Why.ALLOWED


def test_reasons() -> None:
    def make() -> None:
        a = x()
        tf.tanh(a, name="elsewhere")
        tf.range(0.0, 3.0, 1.0, name="host")
        tf.exp(a, name="KEEP_FP32_PRECISION/exp")
        tf.nn.relu(a, name="relu")
        tf.add(a, a, name="sum")
        tf.cast(a, tf.int32, name="cast")
        tf.raw_ops.Lgamma(x=a, name="lgamma")
        tf.one_hot([1], 2, name="no_input")

    cfg = config(
        allowlist=["Tanh", "Range", "Exp", "Cast", "Lgamma"], conditional_list=["Relu"],
        strict_conditional_list=["AddV2"], non_convertible_exceptions=[[".*KEEP_FP32_PRECISION.*", ""]],
    )  # fmt: skip
    got = verdicts(build(make, cpu=("elsewhere", "lgamma")), cfg)
    assert got == {
        "elsewhere": Why.NOT_ON_HPU, "host": Why.HOST_VALUE, "KEEP_FP32_PRECISION/exp": Why.KEPT, "relu": Why.ALONE,
        "sum": Why.MIXED, "lgamma": Why.NOT_ON_HPU, "no_input": Why.UNLISTED,
    }  # fmt: skip


def test_types_that_an_op_has_in_fp32_only_stay() -> None:
    def make() -> None:
        image = v1.placeholder(F32, (2, 3, 3, 4), "x")
        ones = tf.ones(4)
        y, mean, *_ = tf.raw_ops.FusedBatchNormV3(x=image, scale=ones, offset=ones, mean=[], variance=[], name="norm")
        tf.add(tf.reduce_sum(y), tf.reduce_sum(mean), name="last")

    cfg = config(allowlist=["FusedBatchNormV3"])
    out, _ = converted(build(make), cfg)
    norm = next(n for n in out.node if n.name == "norm")
    assert norm.attr["T"].type == BF16.as_datatype_enum and norm.attr["U"].type == F32.as_datatype_enum
    data = np.arange(72, dtype="f4").reshape(2, 3, 3, 4)
    (got,), _ = run(out, ["last"], {"x": data})
    with tf.device("/CPU:0"):
        y, mean, *_ = tf.raw_ops.FusedBatchNormV3(
            x=tf.cast(data, BF16), scale=tf.ones(4), offset=tf.ones(4), mean=[], variance=[]
        )
        np.testing.assert_array_equal(got, tf.reduce_sum(tf.cast(y, F32)) + tf.reduce_sum(mean))


def test_lists_of_tensors() -> None:
    def make() -> None:
        given = x()
        a = tf.tanh(given, name="tanh")
        many = tf.raw_ops.IdentityN(input=[a, tf.constant([1, 2]), given], name="many")
        tf.add_n([many[0], a], name="last")

    cfg = config(allowlist=["Tanh"], conditional_list=["IdentityN", "AddN"])
    out, done = converted(build(make), cfg)
    assert [w for _, w in done.verdicts.items()] == [Why.CONDITIONAL, Why.CONDITIONAL, Why.ALLOWED]
    many = next(n for n in out.node if n.name == "many")
    assert list(many.attr["T"].list.type) == [t.as_datatype_enum for t in (BF16, tf.int32, BF16)]
    fetch = out.node.add(name="f", op="Cast", input=["last"])
    fetch.attr["SrcT"].type, fetch.attr["DstT"].type = BF16.as_datatype_enum, F32.as_datatype_enum
    (got,), _ = run(out, ["f"], FEED)
    with tf.device("/CPU:0"):
        a = tf.tanh(tf.cast(X, BF16))
        np.testing.assert_array_equal(got, tf.cast(tf.add_n([a, a]), F32).numpy())


# --- in the pipeline ---


@pytest.fixture
def user_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "lists.json"
    path.write_text(json.dumps({"allowlist": ["MatMul"], "strict_conditional_list": ["AddV2"]}))
    monkeypatch.setenv("TF_BF16_CONVERSION", str(path))
    return path


def simple() -> None:
    y = tf.matmul(x(), tf.ones((4, 2)), name="y")
    tf.tanh(tf.add(y, y, name="sum"), name="last")


def optimized(make: Callable[[], None], item: Item) -> graph_pb2.GraphDef:
    out = pipeline.optimize(build(make).SerializeToString(), item)
    assert out is not None and pipeline.optimize(out, item) is None
    return graph_pb2.GraphDef.FromString(out)


def test_a_cluster_holds_the_casts(user_file: Path) -> None:
    out = optimized(simple, Item(fetch=["last"]))
    (launch,) = launches(out)
    assert cluster_ops(launch) == ["AddV2", "Cast", "Cast", "Cast", "MatMul", "Tanh"]
    assert list(launch.attr["Tin"].list.type) == list(launch.attr["Tout"].list.type) == [F32.as_datatype_enum]


def test_what_is_asked_for_by_name_stays_fp32(user_file: Path) -> None:
    out = optimized(simple, Item(preserve=["y", "sum"], fetch=["y", "sum"]))
    got, _ = run(out, ["y", "sum"], FEED)
    with tf.device("/CPU:0"):
        y = tf.matmul(tf.cast(X, BF16), tf.ones((4, 2), BF16))
    assert got[0].dtype == got[1].dtype == np.float32
    np.testing.assert_array_equal(got[0], tf.cast(y, F32))
    np.testing.assert_array_equal(got[1], tf.cast(y + y, F32))


def test_control_flow(user_file: Path) -> None:
    def make() -> None:
        a, p = x(), v1.placeholder(tf.bool, (), "p")
        w = tf.constant(np.full((4, 4), 0.31, "f4"))
        a = v1.cond(p, lambda: tf.matmul(a, w), lambda: a - 1.0)
        a = v1.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.matmul(y, w)), [0, a])[1]
        tf.identity(a, "last")

    for p in (True, False):
        (got,), _ = run(optimized(make, Item(fetch=["last"])), ["last"], {"x": X, "p": p})
        with tf.device("/CPU:0"):
            w = tf.cast(np.full((4, 4), 0.31, "f4"), BF16)
            y = tf.cast(tf.matmul(tf.cast(X, BF16), w), F32) if p else tf.constant(X) - 1.0
            for _ in range(3):
                y = tf.cast(tf.matmul(tf.cast(y, BF16), w), F32)
        np.testing.assert_array_equal(got, y.numpy())


def test_report_and_dump(user_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_BF16_DUMP_PATH", str(tmp_path / "dump.json"))
    report.reset()
    optimized(simple, Item(fetch=["last"]))
    got = placement_report()
    assert "2 ops in bf16" in got.graphs[-1].line()
    rows = json.loads(got.to_json())["precision"]
    assert [(r["op"], r["count"], r["type"], r["reason"]) for r in rows] == [
        ("AddV2", 1, "bfloat16", "STRICT"), ("MatMul", 1, "bfloat16", "ALLOWED"), ("Tanh", 1, "float32", "UNLISTED"),
    ]  # fmt: skip
    assert "TF_BF16_CONVERSION" in str(got)
    assert json.loads((tmp_path / "dump.json").read_text())["allowlist"] == ["MatMul"]
    report.reset()


def test_off_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_BF16_CONVERSION", raising=False)
    monkeypatch.delenv("TF_ENABLE_BF16_CONVERSION", raising=False)
    out = optimized(simple, Item(fetch=["last"]))
    assert cluster_ops(launches(out)[0]) == ["AddV2", "MatMul", "Tanh"]
