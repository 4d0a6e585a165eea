"""What a script asks about the device it runs on."""

from __future__ import annotations

import logging

from .hardware.cards import chosen_card

log = logging.getLogger("habana_tf.device")


def get_type() -> str:
    """The generation of the card of this process: "GAUDI", "GAUDI2" or "GAUDI3"."""
    return chosen_card().chip.device_type
