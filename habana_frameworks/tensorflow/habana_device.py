"""`habana_device`: what a script asks about the device it runs on.

Habana's: `get_type()` gave the generation of the card of this process, whose first word scripts compare with "GAUDI" or
"GAUDI2", and `log` was the device's logger.
Here: the generation of the simulated cards (HABANA_SIM_CHIP), which needs no loaded device, and a logger below that of
habana_tf.
"""

from __future__ import annotations

import logging

from habana_tf.hardware.chips import chip

__all__ = ["get_type", "log"]

log = logging.getLogger("habana_tf.device")


def get_type() -> str:
    """The generation of the simulated cards: "GAUDI", "GAUDI2" or "GAUDI3"."""
    return chip().device_type
