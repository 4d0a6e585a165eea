"""The pass where it is called: by TensorFlow, on HPU, for functions, models and sessions."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.child import on_hpu, python

X = np.arange(6, dtype="f4").reshape(2, 3)


def last() -> Any:
    from habana_tf.resolver.placement_report import placement_report

    return placement_report().graphs[-1]


def launched() -> int:
    return len(last().launches)


def reasons() -> dict[str, str]:
    return {op: reason.name for op, reason, _ in last().refused}


@on_hpu
def test_updates_and_reads_of_variables_are_one_launch() -> None:
    v, w = tf.Variable(np.ones((3, 3), "f4")), tf.Variable(2.0)

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        y = tf.matmul(x, v) + w
        v.assign_add(tf.matmul(x, y, transpose_a=True))
        w.assign_sub(tf.reduce_mean(y))
        return tf.nn.relu(y) + v[:2]

    got = step(tf.constant(X))
    assert launched() == 1
    y = X @ np.ones((3, 3), "f4") + 2
    after = 1 + X.T @ y
    np.testing.assert_allclose(v.numpy(), after, rtol=1e-6)
    np.testing.assert_allclose(w.numpy(), 2 - y.mean(), rtol=1e-6)
    np.testing.assert_allclose(got.numpy(), np.maximum(y, 0) + after[:2], rtol=1e-6)


@on_hpu
def test_a_random_crop_compiles_no_recipe_per_step() -> None:
    import habana_tf

    x = np.arange(2 * 8 * 8, dtype="f4").reshape(2, 8, 8)

    @tf.function
    def crop(seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        at = tf.cast(tf.random.stateless_uniform((2,), seed) * 5.0, tf.int32)
        return at, tf.nn.relu(tf.convert_to_tensor(x) * 2.0)[:, at[0] : at[0] + 4, at[1] : at[1] + 4] + 1.0

    seen = set()
    for k in range(6):
        at, got = crop(tf.constant([k, 3]))
        i, j = at.numpy()
        seen.add((int(i), int(j)))
        np.testing.assert_array_equal(got.numpy(), x[:, i : i + 4, j : j + 4] * 2 + 1)
    assert len(seen) > 2
    met = [m for c in habana_tf.recompilation_report().clusters for m in c.met]
    assert [m.recipe for m in met if m.changed] and all(m.recipe == "known" for m in met if m.changed)


@on_hpu
def test_explicit_cpu_is_honoured() -> None:
    @tf.function
    def f(x: tf.Tensor) -> tf.Tensor:
        y = tf.abs(x)
        with tf.device("/CPU:0"):
            z = tf.tanh(y)
        return z * 2.0

    np.testing.assert_allclose(f(tf.constant(X)).numpy(), np.tanh(X) * 2, rtol=1e-5)
    assert launched() == 2 and reasons() == {"Tanh": "PLACED_ON_CPU"}


@on_hpu
def test_place_on_cpu() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        return tf.tanh(tf.abs(x)) * 2.0

    v = tf.Variable([1.0, 2.0, 3.0])

    def g(x: tf.Tensor) -> tf.Tensor:
        v.assign_add(tf.reduce_sum(x, 0))
        return tf.tanh(x) * v

    try:
        os.environ["TF_PLACE_ON_CPU"] = "Tanh"
        np.testing.assert_allclose(tf.function(f)(tf.constant(X)).numpy(), np.tanh(X) * 2, rtol=1e-5)
        assert reasons() == {"Tanh": "SETTING"}
        os.environ["TF_PLACE_ON_CPU"] = "all_nodes"
        got = tf.function(g)(tf.constant(X))
        np.testing.assert_allclose(v.numpy(), [4, 7, 10])
        np.testing.assert_allclose(got.numpy(), np.tanh(X) * [4, 7, 10], rtol=1e-5)
        assert {"Tanh", "Sum", "Mul"} <= set(reasons())
    finally:
        del os.environ["TF_PLACE_ON_CPU"]


@on_hpu
def test_loops_and_branches() -> None:
    @tf.function
    def f(x: tf.Tensor, n: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
        i = tf.constant(0)
        while i < n:
            x = tf.tanh(x) + tf.reduce_mean(x)
            i += 1
        return tf.cond(p, lambda: tf.matmul(x, x, transpose_b=True), lambda: tf.zeros((2, 2))) + 1.0

    y = X
    for _ in range(3):
        y = np.tanh(y) + y.mean()
    for p in (True, False):
        got = f(tf.constant(X), tf.constant(3), tf.constant(p)).numpy()
        np.testing.assert_allclose(got, (y @ y.T if p else 0) + np.ones((2, 2)), rtol=1e-5)


@on_hpu
def test_effects_keep_their_order() -> None:
    v = tf.Variable([1.0, 2.0, 3.0])
    seen = []

    @tf.function
    def f(x: tf.Tensor) -> tf.Tensor:
        v.assign_add([1.0, 1.0, 1.0])
        before = v.read_value()
        with tf.control_dependencies([tf.py_function(lambda a: seen.append((a.numpy(), v.numpy())), [before], [])]):
            v.assign(v * 2.0)
        return x + v

    got = f(tf.constant(X)).numpy()
    np.testing.assert_array_equal(seen, [([2, 3, 4], [2, 3, 4])])
    np.testing.assert_array_equal(v.numpy(), [4, 6, 8])
    np.testing.assert_array_equal(got, X + np.array([4, 6, 8]))


@on_hpu
def test_sessions() -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        v = v1.get_variable("w", initializer=[1.0, 2.0], use_resource=True)
        x = v1.placeholder(tf.float32, (2,))
        with tf.control_dependencies([v1.assign_add(v, x * v)]):
            out = tf.nn.relu(v.read_value() - 1.0) * 2.0
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            np.testing.assert_array_equal(session.run(out, {x: [1.0, 3.0]}), [2, 14])
            np.testing.assert_array_equal(session.run(v), [2, 8])
            assert session.run([out, v], {x: [0.0, 0.0]})[0].tolist() == [2, 14]


@on_hpu
def test_other_resource_ops() -> None:
    v = tf.Variable(np.arange(12, dtype="f4").reshape(4, 3))
    generator = tf.random.Generator.from_seed(3)

    @tf.function
    def f() -> tuple[tf.Tensor, ...]:
        rows = tf.gather(v, [0, 2])
        v.scatter_add(tf.IndexedSlices(tf.ones((1, 3)), tf.constant([1])))
        v[0:1].assign([[7.0, 7.0, 7.0]])
        return rows, v.read_value(), generator.normal((3,)), generator.uniform((2,))

    rows, after, normal, uniform = f()
    assert launched() == 1
    np.testing.assert_array_equal(rows.numpy(), [[0, 1, 2], [6, 7, 8]])
    np.testing.assert_array_equal(after.numpy(), [[7, 7, 7], [4, 5, 6], [6, 7, 8], [9, 10, 11]])
    with tf.device("/CPU:0"):
        stock = tf.random.Generator.from_seed(3)
        np.testing.assert_allclose(normal.numpy(), stock.normal((3,)).numpy(), rtol=1e-5)
        np.testing.assert_allclose(uniform.numpy(), stock.uniform((2,)).numpy(), rtol=1e-6)


@on_hpu
def test_what_tensorflow_computes_on_the_cards_variables_is_the_cpus() -> None:
    import habana_tf

    double = tf.Variable(np.arange(4.0))
    generator = tf.random.Generator.from_seed(3)

    @tf.function
    def f() -> tuple[tf.Tensor, ...]:
        double.assign_add(tf.ones(4, tf.float64))
        double[:2].assign([7.0, 7.0])
        return double.read_value(), generator.binomial((3,), 5.0, 0.5)

    assert double.device.endswith("HPU:0")
    np.testing.assert_array_equal(f()[0].numpy(), [7, 7, 3, 4])
    cpu = {op: reason.name for op, reason, on_cpu in last().refused if on_cpu}
    on_variables = {"AssignAddVariableOp": "DTYPE", "ResourceStridedSliceAssign": "DTYPE"}
    assert cpu == {**on_variables, "StatefulRandomBinomial": "NO_ROW"}
    told = {row["op"]: row["reason"] for row in habana_tf.explain(f).on_cpu}
    assert told == cpu


FIT = """
    import sys
    import habana_tf
    habana_tf.load_habana_module()
    import numpy as np, tensorflow as tf
    from habana_tf.distribute import HPUStrategy, strategy
    if {partial}:
        strategy._HPUExtended.enable_partial_batch_handling = property(lambda self: True)
    tf.keras.utils.set_random_seed(1)
    L = tf.keras.layers
    with HPUStrategy().scope():
        model = tf.keras.Sequential([
            L.Input((8, 8, 1)), L.Conv2D(4, 3, use_bias=False), L.BatchNormalization(), L.ReLU(), L.MaxPooling2D(),
            L.Dropout(0.25), L.Flatten(), L.Dense(10),
        ])
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss, metrics=["accuracy"])
    x, y = np.random.rand(20, 8, 8, 1).astype("f4"), np.random.randint(0, 10, 20)
    model.fit(x, y, batch_size=8, validation_data=(x, y), verbose=0)
    graphs = [g for g in habana_tf.placement_report().graphs if any("Conv2D" in c.ops for c in g.launches)]
    assert len(graphs) == 2, graphs
    allowed = {{"IteratorGetNext", "OptionalFromValue", "Identity"}}
    if {partial}:
        allowed |= {{"IteratorGetNextAsOptional", "OptionalHasValue", "OptionalGetValue", "OptionalNone", "Switch",
                    "Merge", "Cast", "Sum", "ExpandDims", "Greater", "Reshape"}}
    for g in graphs:
        assert len(g.launches) == 1, g
        outside = {{op for op, _, _ in g.refused}}
        assert outside <= allowed, outside
    print(*(c.name for g in graphs for c in g.launches))
"""


@pytest.mark.parametrize("partial", [pytest.param(False, marks=pytest.mark.rest), True])
def test_a_training_step_is_one_launch_of_the_same_name_in_every_process(partial: bool) -> None:
    names = set()
    for settings in ({"imported": True}, {"PYTHONHASHSEED": "1"}):  # the first has a seed that Python drew
        done = python(FIT.format(partial=partial), HABANA_SIM_LOG="error", **settings)
        names.add(done.stdout.splitlines()[-1])
    assert len(names) == 1 and names.pop().count("cluster_") == 2
