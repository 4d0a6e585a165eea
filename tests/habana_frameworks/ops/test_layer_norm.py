"""HabanaLayerNormalization is Keras' layer in arguments, weights and numbers."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from habana_frameworks.tensorflow import habana_ops
from habana_frameworks.tensorflow.ops.layer_norm import HabanaLayerNormalization, _HabanaLayerNorm
from tests.child import on_hpu

X = np.random.default_rng(0).normal(1.0, 2.0, (4, 6, 5)).astype("f4")


def trained(layer: Any, x: Any) -> tuple[Any, list[Any]]:
    """Output of a layer with random weights, and the gradients of its weights and input."""
    layer.build(x.shape)
    rng = np.random.default_rng(1)
    layer.set_weights([rng.normal(size=w.shape) for w in layer.get_weights()])
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x)
        loss = tf.reduce_sum(tf.cast(y, tf.float32) ** 3)
    weights = [w if isinstance(w, tf.Variable) else w.value for w in layer.trainable_variables]
    return y, tape.gradient(loss, [x, *weights])


@pytest.mark.parametrize(
    "arguments",
    [{}, {"axis": [1, 2], "epsilon": 1e-12}, {"axis": 1}, {"center": False}, {"scale": False, "epsilon": 0.1}],
)
def test_as_keras(arguments: dict[str, Any]) -> None:
    mine, gradients = trained(HabanaLayerNormalization(**arguments), X)
    stock, expected = trained(tf.keras.layers.LayerNormalization(**arguments), X)
    np.testing.assert_allclose(mine, stock, rtol=1e-4, atol=1e-4)
    assert len(gradients) == len(expected)
    for a, b in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3 * np.abs(b).max())


def test_a_model_can_be_saved_and_change_layers(tmp_path: Path) -> None:
    def model(layer: Any) -> Any:
        keras = tf.keras
        return keras.Sequential([keras.layers.Input((6, 5)), layer(name="LayerNorm", epsilon=1e-12)])

    mine = model(HabanaLayerNormalization)
    mine.set_weights([w + 0.5 for w in mine.get_weights()])
    mine.save(tmp_path / "model.keras")
    again = tf.keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(again.layers[-1], HabanaLayerNormalization) and again.layers[-1].epsilon == 1e-12
    np.testing.assert_array_equal(again(X), mine(X))
    stock = model(tf.keras.layers.LayerNormalization)
    stock.set_weights(mine.get_weights())
    np.testing.assert_allclose(stock(X), mine(X), rtol=1e-4, atol=1e-4)


def test_mixed_precision() -> None:
    y = HabanaLayerNormalization(dtype="mixed_bfloat16")(X)
    assert y.dtype == tf.bfloat16
    stock = tf.keras.layers.LayerNormalization(dtype="mixed_bfloat16")(X)
    np.testing.assert_allclose(tf.cast(y, tf.float32), tf.cast(stock, tf.float32), rtol=2**-6, atol=2**-8)


def test_the_gradient_by_name() -> None:
    """`_HabanaLayerNorm` takes a node of three inputs and outputs whose attributes are TensorProtos."""
    attributes = {"epsilon": tf.make_tensor_proto(1e-3), "axes": tf.make_tensor_proto([2])}
    inputs = [tf.constant(X), tf.zeros(5), tf.range(5.0)]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = habana_ops.habana_layer_norm(*inputs, axes=attributes["axes"], epsilon=attributes["epsilon"])
    node: Any = types.SimpleNamespace(inputs=inputs, outputs=outputs, get_attr=attributes.__getitem__)
    got = _HabanaLayerNorm(node, tf.constant(X), None, None)
    for mine, stock in zip(got, tape.gradient(outputs[0], inputs, tf.constant(X)), strict=True):
        np.testing.assert_allclose(mine, stock, rtol=1e-4, atol=1e-4)


@on_hpu
def test_one_launch() -> None:
    import habana_tf

    layer = HabanaLayerNormalization()
    layer.build(X.shape)
    got = tf.function(lambda x: layer(x))(tf.constant(X))
    (launch,) = habana_tf.placement_report().graphs[-1].launches
    assert "Rsqrt" in launch.ops and "FusedBatchNormV3" not in launch.ops
    mean, std = X.mean(-1, keepdims=True), np.sqrt(X.var(-1, keepdims=True) + 1e-3)
    np.testing.assert_allclose(got.numpy(), (X - mean) / std, rtol=1e-4, atol=1e-5)
