"""Training on several cards, as `habana_frameworks.tensorflow.distribute` offers it.

    from habana_tf.distribute import HPUStrategy

Importing this module does not import TensorFlow; using the name does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from habana_tf.distribute.strategy import HPUStrategy as HPUStrategy

__all__ = ["HPUStrategy"]


def __getattr__(name: str) -> Any:
    if name == "HPUStrategy":
        from habana_tf.distribute.strategy import HPUStrategy

        return HPUStrategy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
