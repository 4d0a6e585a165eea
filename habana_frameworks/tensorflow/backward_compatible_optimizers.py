"""`backward_compatible_optimizers`: Keras' optimizers as they were before 2.11, by name, such as `Adam`.

Habana's: came with SynapseAI 1.8, whose scripts had to run with TensorFlow 2.8 and 2.11 alike, and named the optimizers
that Keras 2.11 moved to `tf.keras.optimizers.legacy`.
Here: the same names, looked up there when they are used. Keras 3 has those optimizers no more, which is an error that
names today's.
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
