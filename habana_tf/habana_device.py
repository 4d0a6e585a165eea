"""What a script asks about the device it runs on."""

from __future__ import annotations

import logging

from .hardware.chips import chip

__all__ = ["get_type", "log"]

log = logging.getLogger("habana_tf.device")


def get_type() -> str:
    """The generation of the simulated cards: "GAUDI", "GAUDI2" or "GAUDI3"."""
    return chip().device_type
