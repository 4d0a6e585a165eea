"""Reads the figures of TensorFlow's allocator for the card, and makes the memory report with them."""

from __future__ import annotations

from habana_tf.hardware.device_state import is_loaded
from habana_tf.resolver import memory
from habana_tf.resolver.memory import MemoryReport


def in_use() -> dict[str, int]:
    """Bytes of the card that TensorFlow has given out: "current" and "peak"."""
    import tensorflow as tf

    found: dict[str, int] = tf.config.experimental.get_memory_info("HPU:0")
    return found


def memory_report() -> MemoryReport:
    """The memory of this process's card. Raises RuntimeError when the device is not loaded."""
    if not is_loaded():
        raise RuntimeError("HPU is not loaded: call habana_tf.load_habana_module() first")
    found = in_use()
    return memory.report(found["current"], found["peak"])
