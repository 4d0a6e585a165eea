"""The bf16 conversion, against TensorFlow on the CPU with the casts written by hand."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow.core.framework import graph_pb2

from habana_tf.graph import bf16, bf16_config, pipeline, placement, report
from habana_tf.graph.bf16 import Why
from tests.child import on_hpu, python
from tests.graph.harness import Item, build, cluster_ops, launches, read, run, v1, variable, view

F32, BF16 = tf.float32, tf.bfloat16
X = np.linspace(-1.1, 2.3, 12, dtype="f4").reshape(3, 4)
FEED = {"x": X}


def config(**lists: Any) -> bf16_config.Config:
    return bf16_config.parse(json.dumps(lists), "test")


def converted(graph: graph_pb2.GraphDef, cfg: bf16_config.Config) -> tuple[graph_pb2.GraphDef, bf16.Conversion]:
    v = view(graph)
    done = bf16.convert(v, placement.place(v), cfg)
    return graph_pb2.GraphDef.FromString(v.write()), done


def verdicts(graph: graph_pb2.GraphDef, cfg: bf16_config.Config) -> dict[str, Why]:
    return {name: why for (name, _), why in converted(graph, cfg)[1].verdicts.items()}


def x() -> tf.Tensor:
    return v1.placeholder(F32, (3, 4), "x")


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


UNARY: dict[str, Callable[..., tf.Tensor]] = {
    "Relu": tf.nn.relu, "Tanh": tf.tanh, "Neg": tf.negative, "Square": tf.square,
}  # fmt: skip
BINARY: dict[str, Callable[..., tf.Tensor]] = {"AddV2": tf.add, "Mul": tf.multiply, "Maximum": tf.maximum}
OPS = [*UNARY, *BINARY]
STEP = st.tuples(st.sampled_from(OPS), st.integers(0, 30), st.integers(0, 30))
LIST = st.lists(st.sampled_from(OPS), max_size=3, unique=True)
NAMES = st.lists(st.integers(0, 12), max_size=2)


def expected_bf16(steps: list[tuple[str, int, int]], cfg: dict[str, Any]) -> set[int]:
    """Which steps are bf16, by trying the lists' definitions until nothing changes."""
    keep = {pair[0] for pair in cfg["non_convertible_exceptions"]}
    force = {pair[0] for pair in cfg["convertible_exceptions"]}
    sources = [[a % (k + 1), b % (k + 1)] if op in BINARY else [a % (k + 1)] for k, (op, a, b) in enumerate(steps)]
    out: set[int] = set()
    while True:
        before = set(out)
        for k, (op, _, _) in enumerate(steps):
            mine = [s - 1 in out for s in sources[k]]  # value 0 is the placeholder, value k + 1 is step k
            users = [u in out for u in range(len(steps)) if k + 1 in sources[u]]
            if f"n{k}" in keep:
                continue
            if (
                op in cfg["allowlist"]
                or f"n{k}" in force
                or (op in cfg["conditional_list"] and any(mine + users))
                or (op in cfg["strict_conditional_list"] and all(mine))
            ):
                out.add(k)
        if out == before:
            return out


@given(st.lists(STEP, min_size=1, max_size=12), LIST, LIST, LIST, NAMES, NAMES, st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_any_graph_under_any_lists(
    steps: list[tuple[str, int, int]], allow: list[str], conditional: list[str], strict: list[str], keep: list[int],
    force: list[int], shuffle: Any,
) -> None:  # fmt: skip
    cfg = {
        "allowlist": allow, "conditional_list": conditional, "strict_conditional_list": strict,
        "non_convertible_exceptions": [[f"n{k}", ""] for k in keep],
        "convertible_exceptions": [[f"n{k}", steps[k][0] if k < len(steps) else ""] for k in force],
    }  # fmt: skip

    def make() -> None:
        values = [x()]
        for k, (op, a, b) in enumerate(steps):
            args = [values[a % len(values)], values[b % len(values)]] if op in BINARY else [values[a % len(values)]]
            values.append((BINARY | UNARY)[op](*args, name=f"n{k}"))

    graph = build(make)
    out, done = converted(graph, config(**cfg))
    inside = expected_bf16(steps, cfg)
    assert {f"n{k}" for k in inside} == {n for (n, _), why in done.verdicts.items() if why.converted}

    with tf.device("/CPU:0"):
        values = [tf.constant(X)]
        for k, (op, a, b) in enumerate(steps):
            args = [values[i % len(values)] for i in ((a, b) if op in BINARY else (a,))]
            values.append((BINARY | UNARY)[op](*[tf.cast(v, BF16 if k in inside else F32) for v in args]))
    for n in out.node:
        if n.op == "Cast":  # no detour between two bf16 ops
            source = next(m for m in out.node if m.name == n.input[0])
            assert source.op != "Cast"
    # what leaves the graph is float32: fetch each step through an fp32 op of its own
    for k in range(len(steps)):
        fetch = out.node.add(name=f"f{k}", op="Cast", input=[f"n{k}"])
        fetch.attr["SrcT"].type = (BF16 if k in inside else F32).as_datatype_enum
        fetch.attr["DstT"].type = F32.as_datatype_enum
    got, _ = run(out, [f"f{k}" for k in range(len(steps))], FEED)
    for have, want in zip(got, values[1:], strict=True):
        np.testing.assert_array_equal(have, tf.cast(want, F32).numpy())

    # once more changes nothing, and the order of the nodes in the graph does not matter
    _, second = converted(out, config(**cfg))
    assert second.casts == 0 and not any(why.converted for (n, _), why in second.verdicts.items() if n[0] == "n")
    mixed = graph_pb2.GraphDef()
    nodes = list(graph.node)
    shuffle.shuffle(nodes)
    mixed.node.extend(nodes)
    a, b = converted(graph, config(**cfg))[0], converted(mixed, config(**cfg))[0]
    assert sorted(map(str, a.node)) == sorted(map(str, b.node))


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


def test_report_dump_and_verbose_mode(
    user_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TF_BF16_DUMP_PATH", str(tmp_path / "dump.json"))
    monkeypatch.setenv("HABANA_SIM_BF16_VERBOSE", "1")
    logger = logging.getLogger("habana_tf")
    propagate, logger.propagate = logger.propagate, True
    report.reset()
    try:
        with caplog.at_level(logging.INFO, logger="habana_tf"):
            optimized(simple, Item(fetch=["last"]))
    finally:
        logger.propagate = propagate
    lines = [r.getMessage() for r in caplog.records]
    assert "bf16 MatMul y: in the allow list" in lines
    assert "bf16 AddV2 sum: in the strict list, and all its inputs are bf16" in lines
    assert "fp32 Tanh last: in no list" in lines
    assert any(line.startswith("graph of") and "2 ops in bf16" in line for line in lines)
    got = report.placement_report()
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


# --- on the device ---


@on_hpu
def test_functions_set_the_variable_at_any_time() -> None:
    rng = np.random.default_rng(0)
    a, w = rng.normal(size=(8, 16)).astype("f4"), rng.normal(size=(16, 4)).astype("f4")
    v = tf.Variable(w)

    def step(a: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.nn.relu(tf.matmul(a, v))))
        return loss, tape.gradient(loss, v)

    plain = tf.function(step)(tf.constant(a))
    os.environ["TF_BF16_CONVERSION"] = "basic"
    try:
        loss, gradient = tf.function(step)(tf.constant(a))
    finally:
        del os.environ["TF_BF16_CONVERSION"]
    graph = report.placement_report().graphs[-1]
    assert len(graph.launches) == 1 and graph.precision["MatMul", Why.ALLOWED] == 2

    with tf.device("/CPU:0"):
        low_a, low_w = tf.cast(a, BF16), tf.cast(w, BF16)
        y = tf.cast(tf.matmul(low_a, low_w), F32)
        z = tf.nn.relu(y)
        upstream = tf.where(y > 0, 2 * z, 0.0)
        expected = tf.cast(tf.matmul(low_a, tf.cast(upstream, BF16), transpose_a=True), F32)
    # one unit in the last place of bf16 where sums of another order round apart
    np.testing.assert_allclose(gradient.numpy(), expected.numpy(), rtol=2**-7, atol=2**-7 * np.abs(expected).max())
    np.testing.assert_allclose(loss.numpy(), tf.reduce_sum(z * z).numpy(), rtol=1e-2)
    difference = np.abs(gradient.numpy() - plain[1].numpy()).max()
    assert 0 < difference < 0.05 * np.abs(plain[1].numpy()).max()


@on_hpu
def test_functions_opened_before_are_converted() -> None:
    layer = tf.keras.layers.Conv2D(4, 3, groups=2)  # Keras calls a function for it, marked for XLA
    layer.build((2, 5, 5, 6))
    image = np.random.default_rng(0).normal(size=(2, 5, 5, 6)).astype("f4")
    os.environ["TF_BF16_CONVERSION"] = "basic"
    try:
        got = tf.function(lambda a: layer(a))(tf.constant(image))
    finally:
        del os.environ["TF_BF16_CONVERSION"]
    precision = report.placement_report().graphs[-1].precision
    assert precision["Conv2D", Why.ALLOWED] == 1 and all(op != "PartitionedCall" for op, _ in precision)
    with tf.device("/CPU:0"):
        images, kernels = tf.split(tf.cast(image, BF16), 2, -1), tf.split(tf.cast(layer.kernel, BF16), 2, -1)
        parts = [tf.nn.conv2d(i, k, 1, "VALID") for i, k in zip(images, kernels, strict=True)]
    np.testing.assert_allclose(got.numpy(), tf.cast(tf.concat(parts, -1), F32).numpy(), rtol=2**-7, atol=2**-7)


BAD = """
    import numpy as np, tensorflow as tf, habana_tf
    habana_tf.load_habana_module()
    x = np.ones((3, 4), "f4")
    np.testing.assert_array_equal(tf.function(lambda a: tf.matmul(a, a, transpose_b=True))(x), x @ x.T)
"""


def test_a_bad_file_is_said_and_the_program_goes_on(tmp_path: Path) -> None:
    (tmp_path / "lists.json").write_text('{"alow_list": []}')
    done = python(BAD, imported=True, TF_BF16_CONVERSION=str(tmp_path / "lists.json"))
    assert f"{tmp_path}/lists.json: unknown key 'alow_list'" in done.stderr


TRAIN = """
    import numpy as np, tensorflow as tf, habana_tf
    habana_tf.load_habana_module()
    tf.keras.utils.set_random_seed(1)
    L = tf.keras.layers
    model = tf.keras.Sequential([
        L.Input((8, 8, 1)), L.Conv2D(16, 3), L.BatchNormalization(), L.ReLU(), L.MaxPooling2D(), L.Flatten(),
        L.Dense(32, activation="tanh"), L.Dropout(0.1), L.Dense(10),
    ])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 512)
    x = (np.eye(64, dtype="f4")[y * 6] + 0.1 * rng.normal(size=(512, 64))).reshape(-1, 8, 8, 1).astype("f4")
    history = model.fit(x, y, batch_size=64, epochs=4, verbose=0).history
    graphs = [g for g in habana_tf.placement_report().graphs if any("Conv2D" in c.ops for c in g.launches)]
    converted = sorted({op for g in graphs for (op, why), _ in g.precision.items() if why.converted})
    assert all(v.dtype == "float32" for v in model.weights)
    print([len(g.launches) for g in graphs], *converted)
    print(history["loss"][0], history["loss"][-1], history["accuracy"][-1])
"""


def test_a_keras_model_trains_in_bf16_as_in_fp32() -> None:
    results = {}
    for choice in ("0", "full", "basic"):
        clusters, numbers = python(TRAIN, imported=True, TF_BF16_CONVERSION=choice).stdout.splitlines()[-2:]
        assert clusters.startswith("[1]")
        results[choice] = (set(clusters.split()[1:]), [float(n) for n in numbers.split()])
    assert results["0"][0] == set()
    assert results["basic"][0] == {"Conv2D", "Conv2DBackpropFilter", "MatMul"}
    assert {"Conv2D", "Relu", "MaxPoolGrad", "BiasAdd", "SparseSoftmaxCrossEntropyWithLogits"} <= results["full"][0]
    plain = results["0"][1]
    for choice in ("full", "basic"):
        first, last, accuracy = results[choice][1]
        assert abs(first - plain[0]) < 0.1 * plain[0] and last < 0.3 * first
        assert accuracy > 0.95 and plain[2] > 0.95
