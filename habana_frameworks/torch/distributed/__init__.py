"""Habana's `habana_frameworks.torch.distributed`."""

from habana_frameworks.torch.distributed import hccl

__all__ = ["hccl"]
