"""Habana's `habana_frameworks.torch.core`, by custom imported as htcore."""

from __future__ import annotations

from habana_tf.torch import told
from habana_tf.torch.device import load

_device = load()

__all__ = ["mark_step"]


def mark_step(device_str: str = "", sync: bool = False) -> None:
    """Ends a step: what was recorded so far becomes one program and runs. In eager mode there is nothing to run."""
    _device.recorder.flush()
    told.marked()
