"""Reads the figures of TensorFlow's allocator for the card."""

from __future__ import annotations

from collections.abc import Mapping


def in_use() -> dict[str, int]:
    """Bytes of the card that TensorFlow has given out: "current" and "peak"."""
    import tensorflow as tf

    found: dict[str, int] = tf.config.experimental.get_memory_info("HPU:0")
    return found


def given_out() -> int:
    """Bytes of the card that are given out now; 0 where no eager context is there to ask, as before TF1's sessions."""
    from tensorflow.python.eager import context

    current = context.context_safe()
    if current is None or current._context_handle is None:
        return 0
    try:
        return int(current.get_memory_info("HPU:0")["current"])
    except ValueError:  # a context that was made before the device was there
        return 0


def source() -> tuple[int, int, Mapping[str, int]]:
    """What TensorFlow holds of the card, for the memory report (`resolver.memory_report.Source`)."""
    from habana_tf.tensorflow.facts.held import held

    found = in_use()
    return found["current"], found["peak"], held()
