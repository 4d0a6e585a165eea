"""Programs that ask for bf16: functions, a file that is wrong, a Keras model."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from habana_tf.resolver.placement_report import placement_report
from habana_tf.tensorflow.graph.bf16 import Why
from tests.child import on_hpu, python
from tests.tensorflow.graph.bf16_graphs import BF16, F32


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
    graph = placement_report().graphs[-1]
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
    precision = placement_report().graphs[-1].precision
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


@pytest.mark.rest  # test_training.py has LeNet in bf16, test_bf16.py which ops are converted
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
