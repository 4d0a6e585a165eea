"""Habana's `habana_frameworks.torch.core.hccl`, of before `habana_frameworks.torch.distributed.hccl`."""

from habana_frameworks.torch.distributed.hccl import initialize_distributed_hpu

__all__ = ["initialize_distributed_hpu"]
