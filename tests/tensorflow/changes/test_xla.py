"""Functions marked for XLA, on HPU and on the CPU, beside the same functions without the mark on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.child import on_hpu, python

X = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)


def marked(body: Any, **options: Any) -> Any:
    return tf.function(body, jit_compile=True, **options)


def gradient(f: Any, x: Any) -> tuple[np.ndarray, np.ndarray]:
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return y.numpy(), tape.gradient(y, x).numpy()


def _loop(x: Any) -> Any:
    for i in tf.range(tf.shape(x)[0]):
        x = x * tf.cast(i + 1, tf.float32) + 1
    return x


def _branch(x: Any) -> Any:
    if tf.reduce_sum(x) > 0:
        x = x * 2
    return tf.nn.relu(x)


BODIES = {
    "elementwise": lambda x: tf.nn.relu(x) * 2,
    "product": lambda x: tf.tanh(x @ tf.transpose(x)),
    "loop": _loop,
    "branch": _branch,
    "a function in it": lambda x: tf.function(_loop)(x) + 1,
    "a marked function in it": lambda x: marked(_branch)(x) + 1,
}


@on_hpu
def test_marked_functions_run_on_hpu_with_their_gradients() -> None:
    import habana_tf

    for name, body in BODIES.items():
        with tf.device("/CPU:0"):
            want = gradient(tf.function(body), X)
        f = marked(body)
        assert f(tf.constant(X)).device.endswith("HPU:0"), name
        assert habana_tf.placement_report().graphs[-1].launches, name
        for got, expected in zip(gradient(f, X), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5, err_msg=name)
        outer = tf.function(lambda x, f=f: f(x) * 3)
        got, _ = gradient(outer, X)
        np.testing.assert_allclose(got, want[0] * 3, rtol=1e-5, atol=1e-5, err_msg=name)
        assert len(habana_tf.placement_report().graphs[-1].launches) > 0, name


@on_hpu
def test_the_device_of_the_call_decides_and_a_function_keeps_a_trace_for_each() -> None:
    f = marked(lambda x: x * 2)

    def is_marked() -> bool:
        return "_XlaMustCompile" in f.get_concrete_function(tf.TensorSpec((3, 4))).function_def.attr

    for device, kind in (("/HPU:0", False), ("/CPU:0", True), (None, False), ("/HPU:0", False), ("cpu:0", True)):
        with tf.device(None), tf.device(device):
            assert is_marked() is kind, device
            np.testing.assert_array_equal(f(tf.constant(X)).numpy(), X * 2)
    assert f.experimental_get_tracing_count() == 2


@on_hpu
def test_devices_named_in_a_graph_decide_for_what_is_traced_in_it() -> None:
    f = marked(lambda x: x * 2)
    seen: list[bool] = []

    @tf.function
    def outer(x: Any) -> Any:
        for device in ("/CPU:0", "/HPU:0", None):
            with tf.device(device):
                seen.append("_XlaMustCompile" in f.get_concrete_function(x).function_def.attr)
                x = f(x)
        return x

    np.testing.assert_array_equal(outer(tf.constant(X)).numpy(), X * 8)
    assert seen == [True, False, False]


@on_hpu
def test_functions_of_saved_models_are_hpus_too() -> None:
    import tempfile

    class Model(tf.Module):
        @tf.function(jit_compile=True, input_signature=[tf.TensorSpec((None, 4))])
        def serve(self, x: Any) -> Any:
            return tf.nn.relu(x) * 3

    with tempfile.TemporaryDirectory() as folder:
        with tf.device("/CPU:0"):  # so that it is saved with its mark
            model = Model()
            model.serve(tf.constant(X))
            tf.saved_model.save(model, folder)
        assert b"_XlaMustCompile" in Path(folder, "saved_model.pb").read_bytes()
        loaded = tf.saved_model.load(folder)
        got = loaded.serve(tf.constant(X))
    assert got.device.endswith("HPU:0")
    np.testing.assert_allclose(got.numpy(), np.maximum(X, 0) * 3)


@on_hpu
def test_layers_that_keras_marks_train_eagerly() -> None:
    layers = tf.keras.layers
    cases = [
        (layers.Conv2D(8, 3, groups=2), (2, 6, 6, 4)),
        (layers.Conv1D(8, 3, groups=2), (2, 6, 4)),
        (layers.Conv1D(8, 3, groups=4, padding="causal", dilation_rate=2), (2, 6, 4)),
        (layers.Conv3D(8, 2, groups=4), (1, 4, 4, 4, 4)),
    ]
    rng = np.random.default_rng(0)
    for layer, shape in cases:
        x = rng.normal(size=shape).astype(np.float32)
        layer.build(shape)
        with tf.GradientTape() as tape:
            y = layer(tf.constant(x))
            loss = tf.reduce_sum(y**2)
        got = tape.gradient(loss, layer.kernel)
        assert y.device.endswith("HPU:0")
        kernel = layer.kernel.numpy()
        groups, rank, per = layer.groups, len(shape) - 2, shape[-1] // layer.groups
        with tf.device("/CPU:0"), tf.GradientTape() as tape:
            parts = [tf.Variable(w) for w in np.split(kernel, groups, -1)]
            if layer.padding == "causal":
                x = np.pad(x, [(0, 0), (4, 0), (0, 0)])
            ys = [
                tf.nn.convolution(
                    tf.constant(x[..., per * k : per * (k + 1)]),
                    w,
                    padding="VALID",
                    dilations=layer.dilation_rate,
                    data_format=("NWC", "NHWC", "NDHWC")[rank - 1],
                )
                for k, w in enumerate(parts)
            ]
            loss = tf.add_n([tf.reduce_sum(part**2) for part in ys])
        want = np.concatenate([g.numpy() for g in tape.gradient(loss, parts)], -1)
        np.testing.assert_allclose(y.numpy(), np.concatenate([part.numpy() for part in ys], -1), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-3, err_msg=f"{rank}-D")


@on_hpu
def test_a_model_compiled_with_jit_compile_trains_as_one_without() -> None:
    import habana_tf

    losses = []
    for jit in (False, True):
        tf.keras.utils.set_random_seed(1)
        model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)])
        model.compile(tf.keras.optimizers.SGD(0.1), "mse", jit_compile=jit)
        assert model.jit_compile is jit
        losses.append(model.fit(X, X[:, :1], epochs=3, verbose=0).history["loss"])
        assert len(habana_tf.placement_report().graphs[-1].launches) == 1
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)


@on_hpu
def test_what_xla_refuses_says_where_it_would_run() -> None:
    generator = tf.random.Generator.from_seed(1)
    refused = {
        "a generator": lambda x: x + generator.normal([3, 4]),
        "strings": lambda x: tf.strings.length(tf.strings.as_string(x)),
        "unique": lambda x: tf.unique_with_counts(tf.reshape(x, [-1]))[2],
    }
    for name, body in refused.items():
        f = marked(body)
        for _ in range(2):
            with tf.device("/CPU:0"), pytest.raises(tf.errors.InvalidArgumentError) as found:
                f(tf.constant(X))
            assert str(found.value).count("or call it under tf.device('/HPU:0')") == 1, name
        assert f(tf.constant(X)).shape[0] > 0, name
    of_the_program = marked(lambda x: tf.reshape(x, tf.cast(x[0, :1], tf.int32) + 5))
    with pytest.raises(tf.errors.InvalidArgumentError) as found:
        of_the_program(tf.constant(X))
    assert "XLA" not in str(found.value)


def test_functions_traced_before_hpu_was_loaded_are_hpus_afterwards() -> None:
    done = python(
        """
import tensorflow as tf
f = tf.function(lambda x: x * 2, jit_compile=True)
x = tf.constant([1.0, 2.0])
f(x)
import habana_tf
habana_tf.load_habana_module()
y = f(x)
print(y.device.rsplit("/", 1)[1], y.numpy().tolist())
with tf.device("/CPU:0"):
    print(f(x).device.rsplit("/", 1)[1])
print(f.experimental_get_tracing_count())
""",
        imported=True,
        HABANA_SIM_LOG="info",
    )
    assert done.stdout.splitlines()[-3:] == ["device:HPU:0 [2.0, 4.0]", "device:CPU:0", "2"]
    assert done.stderr.count("HPU compiles it instead") == 1


@on_hpu
def test_it_can_be_taken_away() -> None:
    from tensorflow.python.eager.polymorphic_function import atomic_function, polymorphic_function

    from habana_tf.host_changes.change import install, undo
    from habana_tf.tensorflow.changes.xla import XLA

    wrapped = atomic_function.from_func_graph, polymorphic_function.OptionalXlaContext
    undo(XLA)
    try:
        assert atomic_function.from_func_graph.__module__.startswith("tensorflow.")
        assert polymorphic_function.OptionalXlaContext.__module__.startswith("tensorflow.")
        f = marked(lambda x: x + 1)
        assert "_XlaMustCompile" in f.get_concrete_function(tf.TensorSpec(())).function_def.attr
    finally:
        install(XLA, started=True)
    assert atomic_function.from_func_graph is not wrapped[0]
    assert "_XlaMustCompile" not in marked(lambda x: x).get_concrete_function(tf.TensorSpec(())).function_def.attr
