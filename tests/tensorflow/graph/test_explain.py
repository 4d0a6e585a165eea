"""What `explain()` foretells is what a run then does, and nothing runs before."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.child import on_hpu, python
from tests.versions import KERAS_3

X = np.linspace(-1, 2, 12, dtype="f4").reshape(3, 4)


def names(graph: Any) -> list[str]:
    return [launch.name for launch in graph.launches]


def on_cpu(graph: Any) -> dict[str, int]:
    return {op: n for (op, _, cpu), n in graph.refused.items() if cpu}


def test_without_the_device() -> None:
    from habana_tf.tensorflow.graph.explain import ExplainError, explain

    with pytest.raises(ExplainError, match=r"call load_habana_module\(\) first"):
        explain(tf.nn.relu, X)


@on_hpu
def test_a_function_is_explained_as_it_runs() -> None:
    import habana_tf
    from habana_tf._native import _bridge

    v, elsewhere, seen = tf.Variable(np.ones((4, 4), "f4")), None, []
    with tf.device("/CPU:0"):
        elsewhere = tf.Variable(2.0)

    @tf.function
    def f(x: tf.Tensor, p: tf.Tensor) -> tuple[tf.Tensor, ...]:
        y = tf.matmul(x, v)
        v.assign_add(tf.matmul(x, y, transpose_a=True))
        elsewhere.assign_add(1.0)
        tf.py_function(lambda: seen.append(1), [], [])
        z = tf.raw_ops.Betainc(a=tf.nn.sigmoid(y), b=tf.ones_like(y), x=tf.nn.sigmoid(y))
        with tf.device("/CPU:0"):
            z = tf.tanh(z)
        return tf.cond(p, lambda: tf.matmul(z, v), lambda: z * 2.0), tf.strings.as_string(y)

    graphs, launches = len(habana_tf.placement_report().graphs), _bridge.counters()["launches"]
    told = habana_tf.explain(f, X, tf.TensorSpec((), tf.bool))
    assert len(habana_tf.placement_report().graphs) == graphs and _bridge.counters()["launches"] == launches
    assert not seen and v.numpy().tolist() == np.ones((4, 4)).tolist() and elsewhere.numpy() == 2
    (part,) = told.parts["function"].graphs

    f(tf.constant(X), tf.constant(True))
    happened = habana_tf.placement_report().graphs[graphs]
    assert seen and names(part) == names(happened) and told.clusters() == len(names(happened)) > 1
    assert on_cpu(part) == on_cpu(happened) and {"Betainc", "Tanh", "AsString"} <= set(on_cpu(happened))
    reasons = {row["op"]: row["reason"] for row in told.on_cpu}
    assert (reasons["Betainc"], reasons["Tanh"], reasons["AsString"]) == ("NO_ROW", "PLACED_ON_CPU", "STRING")
    data = json.loads(told.to_json())["function"]
    assert data["clusters"] == told.clusters() and len(data["graphs"]) == 1
    assert "Betainc" in str(told) and "HPU has no such op" in str(told)
    assert str(told).count("On a real card") == 1
    places = {row["op"]: (row["device"], row["real_card"]) for row in data["real_card"]}
    assert places["MatMul"] == ("HPU", "HPU") and places["Betainc"] == ("CPU", "not known")


@on_hpu
def test_work_that_tensorflow_keeps_on_the_host_is_told() -> None:
    import habana_tf

    @tf.function
    def f(i: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        y, where = tf.unique(i)
        return tf.sqrt(tf.cast(y, tf.float32)), where

    i = tf.constant([4, 9, 4], tf.int64)
    (row,) = habana_tf.explain(f, i).on_cpu
    assert (row["op"], row["count"], row["reason"]) == ("Unique", 1, "NO_ROW")
    count = len(habana_tf.placement_report().graphs)
    np.testing.assert_array_equal(f(i)[0].numpy(), [2, 3])
    assert on_cpu(habana_tf.placement_report().graphs[count]) == {"Unique": 1}


@on_hpu
def test_settings_hold() -> None:
    import habana_tf
    from habana_tf.tensorflow.graph.explain import ExplainError

    def f(x: tf.Tensor) -> tf.Tensor:
        return tf.tanh(tf.matmul(x, x, transpose_b=True)) + 1.0

    assert habana_tf.explain(f, X).on_cpu == []
    try:
        os.environ["TF_PLACE_ON_CPU"] = "Tanh"
        (row,) = habana_tf.explain(f, X).on_cpu
        assert (row["op"], row["count"], row["reason"]) == ("Tanh", 1, "SETTING")
        os.environ["TF_BF16_CONVERSION"] = "basic"
        (graph,) = habana_tf.explain(f, X).parts["function"].graphs
        assert [op for (op, why) in graph.precision if why.converted] == ["MatMul"]
        os.environ["TF_BF16_CONVERSION"] = "/nowhere"
        with pytest.raises(ExplainError, match="stderr"):
            habana_tf.explain(f, X)
    finally:
        os.environ.pop("TF_PLACE_ON_CPU", None)
        os.environ.pop("TF_BF16_CONVERSION", None)


@on_hpu
def test_a_compiled_model_has_a_train_step() -> None:
    import habana_tf

    layers = tf.keras.layers
    model = tf.keras.Sequential([
        layers.Input((8, 8, 3)), layers.Conv2D(4, 3), layers.BatchNormalization(), layers.ReLU(), layers.Flatten(),
        layers.Dropout(0.2), layers.Dense(5),
    ])  # fmt: skip
    x, y = np.zeros((6, 8, 8, 3), "f4"), np.zeros(6, "i8")
    assert list(habana_tf.explain(model, x).parts) == ["call"]
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    before = [w.numpy() for w in model.weights]
    told = habana_tf.explain(model, x, tf.TensorSpec((6,), tf.int64))
    for w, old in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(w.numpy(), old)
    assert list(told.parts) == ["call", "train step"]
    assert told.clusters("call") == told.clusters("train step") == 1
    (step,) = told.parts["train step"].graphs
    assert {"Conv2D", "Conv2DBackpropFilter", "MatMul"} <= set(step.launches[0].ops)

    count = len(habana_tf.placement_report().graphs)
    tf.function(lambda batch: model.train_step(batch))((tf.constant(x), tf.constant(y)))
    happened = habana_tf.placement_report().graphs[count]
    assert names(happened) == names(step)

    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(3)
    again = habana_tf.explain(model, dataset)
    assert again.clusters("train step") == 1 and list(again.parts) == ["call", "train step"]


CALLS = """
    import numpy as np, tensorflow as tf, habana_tf
    habana_tf.load_habana_module()
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((5, 3)), layers.LSTM(4), layers.Dense(2)])
    told = habana_tf.explain(model, np.zeros((8, 5, 3), "f4"))
    assert not habana_tf.placement_report().graphs
    f = tf.function(lambda x: model(x, training=False))
    f(tf.zeros((8, 5, 3)))
    # by their ops: TensorFlow puts constants that it finds into the functions it calls, and so into their clusters
    print([[c.ops for c in g.launches] for g in told.parts["call"].graphs])
    print([[c.ops for c in g.launches] for g in habana_tf.placement_report().graphs])
"""


def test_functions_that_stay_calls() -> None:
    done = python(CALLS, imported=True, HABANA_SIM_CHANGES="-keras2_tracing,-keras2_recurrent")
    told, happened = done.stdout.splitlines()[-2:]
    assert told == happened
    assert f"'MatMul': {3 if KERAS_3 else 2}" in told  # the cluster of the loop has one more there


STRATEGY = """
    import numpy as np, tensorflow as tf, habana_tf
    from habana_tf.distribute import HPUStrategy
    habana_tf.load_habana_module()
    with HPUStrategy().scope():
        model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(2)])
        model.compile("sgd", "mse")
    told = habana_tf.explain(model, np.zeros((8, 4), "f4"), np.zeros((8, 2), "f4"))
    assert told.clusters() >= 1
    assert any("MatMul" in c.ops for g in told.parts["train step"].graphs for c in g.launches)
    model.fit(np.zeros((8, 4), "f4"), np.zeros((8, 2), "f4"), verbose=0)
"""


def test_under_a_strategy() -> None:
    python(STRATEGY, imported=True)


@pytest.mark.skipif(KERAS_3, reason="Keras 3 has no legacy optimizers")
@on_hpu
def test_a_train_step_with_a_legacy_optimizer_is_explained() -> None:
    """It asks for the place of variables that the step's body knows under other names."""
    import habana_tf

    model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(2)])
    model.compile(tf.keras.optimizers.legacy.SGD(0.1, momentum=0.9), "mse")
    told = habana_tf.explain(model, X, X[:, :2])
    assert told.clusters("train step") == 1
