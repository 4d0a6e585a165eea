"""Habana's `habana_frameworks.torch.distributed.hccl`: to import it makes `init_process_group(backend="hccl")` work."""

from habana_tf.torch.distributed.group import register
from habana_tf.torch.distributed.launched import initialize_distributed_hpu

register()

__all__ = ["initialize_distributed_hpu"]
