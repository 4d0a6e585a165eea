"""Casts by the scales of a module's tensors."""

from __future__ import annotations

import torch

from habana_tf.torch.transformer_engine.scaling import FP8TensorMeta

__all__ = ["cast_from_fp8", "cast_to_fp8"]


def cast_to_fp8(
    inp: torch.Tensor, fp8_meta_tensor: FP8TensorMeta, fp8_tensor: int, otype: torch.dtype,
    stochastic_rounding: bool = False, measure_amax: bool = True,
) -> torch.Tensor:  # fmt: skip
    """inp times the scale of the tensor of that number, in 8 bits. measure_amax: whether its largest size is written
    into the newest row of the history."""
    made, amax = torch.ops.hpu.cast_to_fp8_v2(
        inp, fp8_meta_tensor.scale[fp8_tensor], stochastic_rounding, measure_amax, otype
    )
    if measure_amax:
        fp8_meta_tensor.amax_history[0, fp8_tensor] = amax
    return made


def cast_from_fp8(
    inp: torch.Tensor, fp8_meta_tensor: FP8TensorMeta, fp8_tensor: int, otype: torch.dtype
) -> torch.Tensor:
    """inp over the scale of the tensor of that number."""
    made: torch.Tensor = torch.ops.hpu.cast_from_fp8(inp, fp8_meta_tensor.scale_inv[fp8_tensor], otype)
    return made
