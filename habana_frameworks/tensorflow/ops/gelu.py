"""`habana_gelu`: the Gaussian error linear unit as one call.

Habana's: one op of the card, which scripts put in the place of Keras' activation
(`tf.keras.activations.gelu = habana_gelu`).
Here: `tf.nn.gelu` by that name, computed by `habana_ops.habana_gelu`. Works on any device.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from habana_frameworks.tensorflow.habana_ops import habana_gelu as _op

__all__ = ["habana_gelu"]


def habana_gelu(features: Any, approximate: bool = False, name: str | None = None) -> Any:
    """The Gaussian error linear unit of a floating-point tensor, of its shape and type.

    approximate: by a hyperbolic tangent. Raises ValueError for integers.
    """
    features = tf.convert_to_tensor(features)
    if not features.dtype.is_floating:
        raise ValueError(f"habana_gelu: features must be of a floating-point type, not {features.dtype.name}")
    return _op(features, approximate, name)[0]
