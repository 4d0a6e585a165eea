"""habana_gelu is tf.nn.gelu, on the CPU and on HPU."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from habana_frameworks.tensorflow.ops.gelu import habana_gelu
from tests.child import on_hpu

X = np.linspace(-6, 6, 97, dtype="f4").reshape(1, 97)


@pytest.mark.parametrize("approximate", [False, True])
def test_as_tensorflow(approximate: bool) -> None:
    np.testing.assert_allclose(habana_gelu(X, approximate), tf.nn.gelu(X, approximate), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="floating-point type, not int32"):
        habana_gelu(tf.constant([1]), approximate)


def test_as_the_activation_of_a_model() -> None:
    """As Habana's scripts use it: in the place of Keras' own."""
    layers = [tf.keras.layers.Dense(4, activation=a, kernel_initializer="ones") for a in (habana_gelu, "gelu")]
    mine, stock = (layer(X) for layer in layers)
    np.testing.assert_allclose(mine, stock, rtol=1e-5, atol=1e-5)


@on_hpu
def test_on_hpu() -> None:
    x = tf.Variable(X)
    for approximate in (False, True):
        with tf.GradientTape() as tape:
            y = tf.function(habana_gelu)(x, approximate=approximate)
        assert y.device.endswith("HPU:0")
        with tf.device("/CPU:0"), tf.GradientTape() as stock:
            on_cpu = tf.constant(X)
            stock.watch(on_cpu)
            want = tf.nn.gelu(on_cpu, approximate)
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(tape.gradient(y, x), stock.gradient(want, on_cpu), rtol=1e-4, atol=1e-4)
