"""Habana's names for what its bridge can tell about the device."""

from habana_frameworks.torch.utils.experimental.detect_recompilation import (
    const_shape_dataloader,
    data_dynamicity,
    detect_recompilation_auto_model,
)
from habana_tf.torch.device import hpu
from habana_tf.torch.device.chip import device_type as _get_device_type
from habana_tf.torch.device.chip import has_fp16 as _is_fp16_supported
from habana_tf.torch.device.chip import synDeviceType
from habana_tf.torch.device.scales import get_scale_attribute_hash_id as _get_scale_attribute_hash_id
from habana_tf.torch.device.scales import set_is_dynamic_quantization as _set_is_dynamic_quantization
from habana_tf.torch.device.scales import set_scale_attributes as _set_scale_attributes
from habana_tf.torch.device.streams import compute_stream as _compute_stream
from habana_tf.torch.memory.storage import address as _data_ptr

__all__ = [
    "_compute_stream", "_data_ptr", "_get_device_type", "_get_scale_attribute_hash_id", "_is_fp16_supported",
    "_set_is_dynamic_quantization", "_set_scale_attributes", "const_shape_dataloader", "data_dynamicity",
    "detect_recompilation_auto_model", "hpu", "synDeviceType",
]  # fmt: skip
