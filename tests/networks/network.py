"""What a network of the zoo is: a Keras model, one batch, and a loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

Loss = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Network:
    """loss(y, model(x)) is a scalar; x and y are NumPy arrays, or nests of them.

    fp32_only: it has no float64 twin, because a step draws random numbers or TensorFlow has no such kernel.
    players: parts of the model that have an optimizer each; loss then gives a scalar for each of them.
    """

    model: tf.keras.Model
    x: Any
    y: Any
    loss: Loss
    fp32_only: bool = False
    players: tuple[tf.keras.Model, ...] = ()


def wide(x: Any) -> Any:
    """bfloat16 as float32; anything else as it is."""
    return tf.cast(x, tf.float32) if x.dtype == tf.bfloat16 else x


def classifier(y: Any, logits: Any) -> Any:
    """Mean cross entropy of integer classes."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, wide(logits)))


def squares(y: Any, x: Any) -> Any:
    """Mean squared error."""
    return tf.reduce_mean(tf.math.squared_difference(y, wide(x)))


def classification(numbers: np.random.Generator, *shape: int) -> np.ndarray:
    """Random classes below the last extent, of the shape of the others."""
    *outer, classes = shape
    return numbers.integers(0, classes, outer)
