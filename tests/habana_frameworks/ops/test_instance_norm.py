"""HabanaInstanceNormalization is group normalization with one channel per group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from habana_frameworks.tensorflow.ops.instance_norm import HabanaInstanceNormalization
from tests.child import on_hpu

X = np.random.default_rng(0).normal(1.0, 2.0, (2, 4, 3, 5)).astype("f4")


@pytest.mark.parametrize("arguments", [{}, {"epsilon": 1e-6}, {"center": False}, {"scale": False}])
@pytest.mark.parametrize("shape", [(2, 12, 5), (2, 4, 3, 5), (2, 2, 2, 3, 5)])
def test_as_keras_group_normalization(arguments: dict[str, Any], shape: tuple[int, ...]) -> None:
    x = X.reshape(shape)
    mine = HabanaInstanceNormalization(**arguments)
    stock = tf.keras.layers.GroupNormalization(groups=-1, **{"epsilon": 1e-3, **arguments})
    weights = None
    outputs = []
    for layer in (mine, stock):
        layer.build(x.shape)
        weights = weights or [np.random.default_rng(1).normal(size=w.shape) for w in layer.get_weights()]
        layer.set_weights(weights)
        outputs.append(layer(x, training=True) if layer is mine else layer(x))
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-4, atol=1e-4)


def test_configuration_and_errors() -> None:
    layer = HabanaInstanceNormalization(
        gamma_initializer=tf.keras.initializers.RandomNormal(1.0, 0.02),
        beta_regularizer="l2",
        epsilon=1e-6,
        name="norm",
    )
    again = HabanaInstanceNormalization.from_config(layer.get_config())
    assert again.get_config() == layer.get_config() and again.epsilon == 1e-6 and again.name == "norm"
    again.build(X.shape)
    assert len(again.trainable_variables) == 2
    with pytest.raises(ValueError, match="rank 3 or more"):
        HabanaInstanceNormalization()(np.zeros((2, 3), "f4"))


@on_hpu
def test_in_a_model_on_hpu() -> None:
    import habana_tf

    keras = tf.keras
    model = keras.Sequential([
        keras.layers.Input((4, 3, 5)), HabanaInstanceNormalization(), keras.layers.Flatten(), keras.layers.Dense(1),
    ])  # fmt: skip
    model.compile("sgd", "mse")
    first = model.evaluate(X, np.ones((2, 1)), verbose=0)
    model.fit(X, np.ones((2, 1)), epochs=30, verbose=0)
    assert model.evaluate(X, np.ones((2, 1)), verbose=0) < 0.2 * first
    steps = [g for g in habana_tf.placement_report().graphs if any("MatMul" in c.ops for c in g.launches)]
    assert steps and all(not cpu or op == "IteratorGetNext" or op.startswith(("Optional", "Shape"))
                         for g in steps for (op, _, cpu) in g.refused)  # fmt: skip
