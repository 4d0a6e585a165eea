"""Habana's names for what its bridge can tell about the device."""

from habana_tf.torch.device import hpu
from habana_tf.torch.device.chip import device_type as _get_device_type
from habana_tf.torch.device.chip import synDeviceType

__all__ = ["_get_device_type", "hpu", "synDeviceType"]
