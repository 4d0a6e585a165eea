"""Which generation of Gaudi the device is, as Habana's bridge counts them."""

from __future__ import annotations

import enum

from habana_tf.torch.record import current

__all__ = ["device_type", "has_fp16", "synDeviceType"]


class synDeviceType(enum.Enum):
    """Generations. Values are the names that `get_device_name` gives."""

    synDeviceGaudi = "GAUDI"
    synDeviceGaudi2 = "GAUDI2"
    synDeviceGaudi3 = "GAUDI3"


def device_type() -> synDeviceType:
    """The generation of this process's card. Does not claim the card."""
    return synDeviceType(current.chip().device_type)


def has_fp16() -> bool:
    """Whether this process's card has arithmetic in fp16, as all have but the first generation's."""
    return device_type() is not synDeviceType.synDeviceGaudi
