"""Reads the figures of TensorFlow's allocator for the card, and makes the memory report with them."""

from __future__ import annotations

from habana_tf.hardware.device_state import is_loaded
from habana_tf.resolver import memory_report as reports
from habana_tf.resolver.memory_report import MemoryReport


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


def memory_report() -> MemoryReport:
    """The memory of this process's card: what holds it now, and what held it at the peak.

    Both sum up to what TensorFlow's allocator has given out. Raises RuntimeError when the device is not loaded.
    """
    if not is_loaded():
        raise RuntimeError("HPU is not loaded: call habana_tf.load_habana_module() first")
    from habana_tf.hardware.chips import chip
    from habana_tf.tensorflow_facts.held import held

    found, holders = in_use(), held()
    return reports.report(chip().hbm_bytes, found["current"], found["peak"], holders)
