"""Ops that a program defines by a lowering: eager, in clusters, trained, predicted, and shared by processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from habana_tf.custom import FLOATS, custom_op
from tests.child import on_hpu, python
from tests.custom.defined_ops import X, min_max, soft_swish, swish, total
from tests.custom.launched import counters, kernels


@on_hpu
def test_eager_in_both_types_and_any_shape() -> None:
    @settings(max_examples=20, deadline=None)
    @given(st.lists(st.integers(0, 5), max_size=4), st.sampled_from([tf.float32, tf.bfloat16]), st.floats(-2, 2))
    def check(shape: list[int], dtype: Any, beta: float) -> None:
        x = tf.cast(np.random.default_rng(len(shape)).normal(size=shape), dtype)
        y = soft_swish(x, beta=beta)
        assert y.device.endswith("HPU:0") and y.dtype == dtype and y.shape == shape
        exact = swish(tf.cast(x, tf.float64), np.float32(beta))
        np.testing.assert_allclose(tf.cast(y, tf.float64), exact, rtol=1e-5 if dtype == tf.float32 else 8e-3, atol=1e-6)

    check()


@on_hpu
def test_eager_calls_of_an_elementwise_op_share_a_recipe() -> None:
    from habana_tf.resolver.recompilations import recompilation_report

    def compiled() -> int:
        return recompilation_report().one_op.get("TestSwish", {}).get("compiled", 0)

    soft_swish(tf.ones([3, 3]), beta=0.25)
    before = compiled()
    for n in range(2, 8):
        soft_swish(tf.ones([n, 7]), beta=0.25)
    assert compiled() == before


@on_hpu
def test_several_outputs_integers_and_lists_of_inputs() -> None:
    for dtype in (np.int32, np.int64, np.uint8, np.float32):
        x = np.arange(12).reshape(3, 4).astype(dtype)
        low, high = min_max(tf.constant(x), axis=0)
        assert low.numpy().tolist() == x.min(0).tolist() and high.numpy().tolist() == x.max(0).tolist()
        assert low.dtype == dtype
    y = tf.function(lambda: total([tf.constant(X), tf.constant(X), tf.constant(X)], k=2))()
    np.testing.assert_allclose(y, 6 * X, rtol=1e-6)


@on_hpu
def test_in_a_function_it_is_fused_with_its_neighbours() -> None:
    @tf.function
    def f(x: Any) -> Any:
        return tf.exp(soft_swish(x + 1.0, beta=2.0)) * 3.0

    np.testing.assert_allclose(f(tf.constant(X)), 3 * np.exp(swish(X + 1, 2.0)), rtol=1e-5)
    (kernel,) = kernels()
    assert kernel["fused"]["exp"] == 1 and kernel["fused"]["sigmoid"] == 1
    from habana_tf import placement_report

    assert len(placement_report().graphs[-1].launches) == 1 and not placement_report().graphs[-1].refused


@on_hpu
def test_static_shapes_are_known_where_the_op_is_declared_and_where_its_lowering_tells() -> None:
    declared = tf.function(lambda x: soft_swish(x)).get_concrete_function(tf.TensorSpec([None, 3]))
    assert declared.output_shapes.as_list() == [None, 3]
    lowered = tf.function(lambda x: min_max(x, axis=1)).get_concrete_function(tf.TensorSpec([None, 3, 5]))
    assert [s.as_list() for s in lowered.output_shapes] == [[None, 5], [None, 5]]


@on_hpu
def test_a_value_that_is_not_declared_as_fixed_is_one_only_where_it_is_a_constant_of_the_graph() -> None:
    @custom_op("TestNotFixed", inputs="x: T, k: int32", outputs="y: T", T=FLOATS)
    def long(c: Any) -> Any:
        return c.b.reshape(c.inputs[0], (int(c.value("k")),))

    f = tf.function(lambda x: long(x, 2))
    assert f.get_concrete_function(tf.TensorSpec([2, 1])).output_shapes.as_list() == [2]
    assert f(tf.ones([2, 1])).shape == [2]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"input 'k' is needed .*; name it in fixed="):
        long(tf.ones([2, 1]), 2)


@on_hpu
def test_slices_of_shapes_are_the_same_eagerly_and_in_graphs() -> None:
    short = custom_op("TestShort", inputs="x: T", outputs="y: T", T=FLOATS, shapes="x[:-3], ?")(lambda c: c.inputs[0])
    beyond = custom_op("TestBeyond", inputs="x: T", outputs="y: T", T=FLOATS, shapes="x[3:], ?")(lambda c: c.inputs[0])
    x = tf.ones([2])
    for run in (short, tf.function(lambda x: short(x))):
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="-3"):
            run(x)
    for run in (beyond, tf.function(lambda x: beyond(x))):
        assert run(x).numpy().tolist() == [1, 1]


@on_hpu
def test_the_gradient_is_registered_and_jit_compile_is_taken() -> None:
    v = tf.Variable(X)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(soft_swish(v, beta=1.5))
    eager = tape.gradient(y, v)

    @tf.function(jit_compile=True)
    def step() -> Any:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(soft_swish(v, beta=1.5))
        return tape.gradient(y, v)

    wide = X.astype(np.float64)
    exact = (swish(wide + 1e-5, 1.5) - swish(wide - 1e-5, 1.5)) / 2e-5
    np.testing.assert_allclose(eager, exact, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(step(), eager, rtol=1e-5, atol=1e-6)


@on_hpu
def test_sizes_that_change_become_a_range() -> None:
    f = tf.function(lambda x: min_max(soft_swish(x), axis=1)[1], input_signature=[tf.TensorSpec([None, None])])
    before = counters()["resolutions"]
    for n in range(3, 9):
        x = np.random.default_rng(n).normal(size=(n, 6)).astype("f4")
        np.testing.assert_allclose(f(tf.constant(x)), swish(x).max(1), rtol=1e-5)
    assert counters()["resolutions"] == before + 6
    from habana_tf.resolver.recompilations import recompilation_report

    assert sum(m.recipe == "compiled" for m in recompilation_report().clusters[-1].met) == 2


@on_hpu
def test_keras_trains_with_it() -> None:
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential(
        [tf.keras.layers.Input((6,)), tf.keras.layers.Dense(16), tf.keras.layers.Activation(lambda x: soft_swish(x)),
         tf.keras.layers.Dense(1)]
    )  # fmt: skip
    model.compile(tf.keras.optimizers.Adam(0.01), "mse")
    x = np.random.default_rng(0).normal(size=(64, 6)).astype("f4")
    history = model.fit(x, x.sum(1), epochs=12, batch_size=16, verbose=0).history["loss"]
    assert history[-1] < 0.8 * history[0]
    from habana_tf import placement_report

    assert all(op != "TestSwish" for g in placement_report().graphs for op, _, _ in g.refused)


@on_hpu
def test_the_bf16_lists_of_the_package_know_it_and_a_configuration_of_the_user_rules(tmp_path: Any = None) -> None:
    from habana_tf import placement_report
    from habana_tf.tensorflow.graph import bf16_config

    w = tf.constant(np.eye(6, dtype="f4"))

    def verdict(config: Any) -> str:
        with bf16_config.using(config):
            tf.function(lambda x: soft_swish(tf.matmul(x, w)))(tf.constant(X))
        (found,) = {why.name for op, why in placement_report().graphs[-1].precision if op == "TestSwish"}
        return str(found)

    assert verdict(bf16_config.built_in("full")) == "CONDITIONAL"
    assert verdict(bf16_config.parse('{"allowlist": ["MatMul"]}', "mine.json")) == "UNLISTED"
    assert verdict(bf16_config.parse('{"allowlist": ["MatMul", "TestSwish"]}', "mine.json")) == "ALLOWED"


@on_hpu
def test_on_the_cpu_there_is_no_kernel() -> None:
    with tf.device("/CPU:0"):  # soft placement: where there is a kernel
        assert soft_swish(tf.ones([2])).device.endswith("HPU:0")
    tf.config.set_soft_device_placement(False)
    try:
        with tf.device("/CPU:0"), pytest.raises((tf.errors.InvalidArgumentError, tf.errors.NotFoundError)) as why:
            soft_swish(tf.ones([2]))
        assert "TestSwish" in str(why.value) and "HPU" in str(why.value)
    finally:
        tf.config.set_soft_device_placement(True)


PROGRAM = """
    import json, sys
    import habana_tf
    from habana_tf.custom import custom_op, wrap, FLOATS

    FACTOR = {factor}

    @custom_op("TestStored", inputs="x: T", outputs="y: T", T=FLOATS, shapes="x")
    def stored(c):
        return (wrap(c.b, c.inputs[0]) * FACTOR).done(c.inputs[0].dtype)

    try:
        stored(1.0)
    except RuntimeError as why:
        assert "load_habana_module() first" in str(why), why
    import tensorflow as tf
    habana_tf.load_habana_module()
    x = tf.constant([1.0, 2.0])
    y = tf.function(lambda x: tf.exp(stored(x + 1.0)))(x)
    z = tf.function(lambda x: tf.tanh(x) * 2.0)(x)
    w = stored(x)
    {more}
    stats = habana_tf.cache.stats().counts()
    print(json.dumps([y.numpy().tolist(), stats.compiled, stats.disk_hits]))
"""


def test_recipes_are_shared_by_processes_until_the_lowering_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Defined before HPU is loaded; the cache has what was compiled; a changed constant compiles what uses it."""
    from habana_tf.cli.main import main

    def cli(*words: str) -> str:
        main([*words, "--path", str(tmp_path / "cache")])
        return "".join(capsys.readouterr())

    def run(factor: float, more: str = "") -> Any:
        text = PROGRAM.format(factor=factor, more=more)
        # Not with the package imported: a copy of the process that did so writes no history of the cache.
        done = python(text, imported=True, hpu=False, TF_RECIPE_CACHE_PATH=str(tmp_path / "cache"))
        return json.loads(done.stdout)

    save = (
        "module = tf.Module(); "
        "module.f = tf.function(lambda x: stored(x) + 1.0, input_signature=[tf.TensorSpec([None])]); "
        f"tf.saved_model.save(module, {str(tmp_path / 'model')!r})"
    )
    first = run(2.0, save)
    np.testing.assert_allclose(first[0], np.exp([4.0, 6.0]), rtol=1e-5)
    load = (
        f"loaded = tf.saved_model.load({str(tmp_path / 'model')!r}); assert loaded.f(x).numpy().tolist() == [3.0, 5.0]"
    )
    compiled, hits = first[1:]
    assert (compiled, hits) == (3, 0)
    assert run(2.0)[1:] == [0, 3]
    changed = run(3.0)
    assert "another lowering or kernel of TestStored" in cli("recipes", "explain")
    key = next(line.split()[1] for line in cli("recipes", "explain").splitlines() if line.startswith("cluster_"))
    assert "only its program defines (TensorFlow" in cli("recipes", "ir", key)
    assert "TestStored(" in cli("recipes", "ir", key, "--stage", "cluster")
    np.testing.assert_allclose(changed[0], np.exp([6.0, 9.0]), rtol=1e-5)
    assert changed[1:] == [2, 1]  # not tanh
    assert run(2.0, load)[1] == 1  # the loaded function


@on_hpu
def test_predictions_and_explanations_know_it() -> None:
    import habana_tf

    w = tf.constant(np.eye(6, dtype="f4"))
    f = tf.function(lambda x: soft_swish(tf.matmul(x, w)))
    assert "nothing on the CPU" in str(habana_tf.explain(f, tf.constant(X)))
    alone = habana_tf.predict(tf.function(lambda x: tf.matmul(x, w)), tf.constant(X), chip="gaudi2")
    assert habana_tf.predict(f, tf.constant(X), chip="gaudi2").engines["TPC"] > alone.engines["TPC"]
