"""Habana's `habana_frameworks.torch.utils.experimental.detect_recompilation`: which modules compile anew, and why."""

from habana_tf.torch.device.changing_shapes import const_shape_dataloader, data_dynamicity, get_shape
from habana_tf.torch.device.recompiling_modules import detect_recompilation_auto_model

__all__ = ["const_shape_dataloader", "data_dynamicity", "detect_recompilation_auto_model", "get_shape"]
