"""The triangle wave, against the formula in NumPy, and in an optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from habana_frameworks.tensorflow.optimizers.cyclical_learning_rate import CyclicalLearningRate


def triangle(step: int, low: float, high: float, size: int, scale: Callable[[Any], Any], mode: str) -> float:
    """Up from `low` for `size` steps, down again for as many."""
    cycle, at = divmod(step, 2 * size)
    height = at / size if at <= size else 2 - at / size
    return low + (high - low) * height * float(scale(cycle + 1 if mode == "cycle" else step))


@pytest.mark.parametrize(
    ("mode", "scale"),
    [("cycle", lambda x: 1.0), ("cycle", lambda x: 1 / (2.0 ** (x - 1))), ("iterations", lambda x: 0.99**x)],
)
def test_the_wave(mode: str, scale: Callable[[Any], Any]) -> None:
    rate = CyclicalLearningRate(1e-4, 1e-2, 7, scale, mode)
    got = [float(rate(tf.constant(step, tf.int64))) for step in range(40)]
    expected = [triangle(step, 1e-4, 1e-2, 7, scale, mode) for step in range(40)]
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_in_an_optimizer() -> None:
    rate = CyclicalLearningRate(
        initial_learning_rate=0.0, maximal_learning_rate=1.0, step_size=2, scale_fn=lambda x: 1.0, scale_mode="cycle"
    )
    optimizer = tf.keras.optimizers.SGD(rate)
    v = tf.keras.Variable(0.0) if hasattr(tf.keras, "Variable") else tf.Variable(0.0)
    seen = []
    for _ in range(5):
        optimizer.apply_gradients([(tf.constant(-1.0), v)])
        seen.append(float(v.numpy()))
    np.testing.assert_allclose(seen, np.cumsum([0, 0.5, 1, 0.5, 0]), atol=1e-6)
    assert CyclicalLearningRate(**rate.get_config()).step_size == 2
    with pytest.raises(ValueError, match="scale_mode"):
        CyclicalLearningRate(0.0, 1.0, 2, lambda x: 1.0, "cycles")
