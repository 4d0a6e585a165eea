"""Keras' optimizers as they were before 2.11, by name: `backward_compatible_optimizers.Adam`, ...

Keras 2 keeps them as `tf.keras.optimizers.legacy`; Keras 3 has them no more.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import tensorflow as tf

    keras_3 = int(getattr(tf.keras, "__version__", "2").split(".")[0]) >= 3
    if name == "__all__":  # what `import *` takes
        return [] if keras_3 else [each for each in dir(tf.keras.optimizers.legacy) if not each.startswith("_")]
    if not keras_3 and hasattr(tf.keras.optimizers.legacy, name):
        return getattr(tf.keras.optimizers.legacy, name)
    raise AttributeError(
        f"backward_compatible_optimizers.{name}: the Keras of TensorFlow {tf.__version__} has no such legacy optimizer"
        + (f"; Keras 3 has none, use tf.keras.optimizers.{name}" if keras_3 else "")
    )
