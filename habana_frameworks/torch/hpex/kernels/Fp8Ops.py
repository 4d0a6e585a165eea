"""Habana's names of before `torch.ops.hpu` for its ops in 8 bits."""

import torch

from habana_tf.torch.loader import load

load()
cast_to_fp8_v2 = torch.ops.hpu.cast_to_fp8_v2
cast_from_fp8 = torch.ops.hpu.cast_from_fp8
fp8_gemm_v2 = torch.ops.hpu.fp8_gemm_v2

__all__ = ["cast_from_fp8", "cast_to_fp8_v2", "fp8_gemm_v2"]
