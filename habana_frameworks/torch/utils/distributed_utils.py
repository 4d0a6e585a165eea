"""Habana's `habana_frameworks.torch.utils.distributed_utils`: who a process is in a job."""

from habana_frameworks.torch.distributed.hccl import initialize_distributed_hpu

__all__ = ["initialize_distributed_hpu"]
