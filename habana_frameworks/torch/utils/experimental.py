"""Habana's names for what its bridge can tell about the device."""

from habana_tf.torch import hpu
from habana_tf.torch.api.chip import device_type as _get_device_type
from habana_tf.torch.api.chip import synDeviceType

__all__ = ["_get_device_type", "hpu", "synDeviceType"]
