"""Habana's `habana_frameworks.torch.distributed.hccl`: to import it makes `init_process_group(backend="hccl")` work and
sets LOCAL_RANK."""

from habana_tf.torch.distributed.group import register
from habana_tf.torch.distributed.launched import initialize_distributed_hpu, tell_local_rank

register()
tell_local_rank()

__all__ = ["initialize_distributed_hpu"]
