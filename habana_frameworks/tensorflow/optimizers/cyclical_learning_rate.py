"""`CyclicalLearningRate`: a learning rate that goes up and down between two bounds.

Habana's: took the place of TensorFlow Addons' class of this name, with its arguments.
Here: the same, after Leslie Smith, "Cyclical Learning Rates for Training Neural Networks" (arXiv 1506.01186).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

__all__ = ["CyclicalLearningRate"]


@tf.keras.utils.register_keras_serializable(package="Habana")
class CyclicalLearningRate(tf.keras.optimizers.schedules.LearningRateSchedule):
    """A triangle wave from `initial_learning_rate` to `maximal_learning_rate` and back in 2 * `step_size` steps.

    scale_fn: what the height of a cycle is multiplied by, a function of the number of the cycle, from 1
    (scale_mode="cycle"), or of the step (scale_mode="iterations").
    """

    def __init__(
        self,
        initial_learning_rate: Any,
        maximal_learning_rate: Any,
        step_size: Any,
        scale_fn: Callable[[Any], Any],
        scale_mode: str = "cycle",
        name: str = "CyclicalLearningRate",
    ) -> None:
        super().__init__()
        if scale_mode not in ("cycle", "iterations"):
            raise ValueError(f"scale_mode must be 'cycle' or 'iterations', not {scale_mode!r}")
        self.initial_learning_rate = initial_learning_rate
        self.maximal_learning_rate = maximal_learning_rate
        self.step_size = step_size
        self.scale_fn = scale_fn
        self.scale_mode = scale_mode
        self.name = name

    def __call__(self, step: Any) -> Any:
        with tf.name_scope(self.name):
            initial = tf.convert_to_tensor(self.initial_learning_rate, name="initial_learning_rate")
            dtype = initial.dtype
            maximal, step_size = tf.cast(self.maximal_learning_rate, dtype), tf.cast(self.step_size, dtype)
            at = tf.cast(step, dtype)
            cycle = tf.floor(1 + at / (2 * step_size))
            away = tf.abs(at / step_size - 2 * cycle + 1)
            scale = tf.cast(self.scale_fn(cycle if self.scale_mode == "cycle" else at), dtype)
            return initial + (maximal - initial) * tf.maximum(tf.cast(0, dtype), 1 - away) * scale

    def get_config(self) -> dict[str, Any]:
        return {
            "initial_learning_rate": self.initial_learning_rate,
            "maximal_learning_rate": self.maximal_learning_rate,
            "scale_fn": self.scale_fn,
            "step_size": self.step_size,
            "scale_mode": self.scale_mode,
            "name": self.name,
        }
