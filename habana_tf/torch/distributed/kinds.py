"""What the methods of a process group are, as collectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from habana_tf.torch.record.nested import tensors

KINDS = {
    "allreduce": ("all_reduce", 0, 0), "allreduce_coalesced": ("all_reduce", 0, 0), "broadcast": ("broadcast", 0, 0),
    "reduce": ("reduce", 0, 0), "allgather": ("all_gather", 0, 1), "_allgather_base": ("all_gather", 0, 1),
    "all_gather_single": ("all_gather", 0, 1), "allgather_into_tensor_coalesced": ("all_gather", 0, 1),
    "all_gather_single_coalesced": ("all_gather", 0, 1), "reduce_scatter": ("reduce_scatter", 1, 1),
    "_reduce_scatter_base": ("reduce_scatter", 1, 1), "reduce_scatter_single": ("reduce_scatter", 1, 1),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", 1, 1),
    "reduce_scatter_single_coalesced": ("reduce_scatter", 1, 1),
    "gather": ("gather", 0, 1), "scatter": ("scatter", 1, 1), "alltoall": ("all_to_all", 1, 1),
    "alltoall_base": ("all_to_all", 1, 1), "all_to_all_single": ("all_to_all", 1, 1),
}  # fmt: skip
"""Of each its kind, the argument whose bytes count, the one that is sent."""


def nbytes(name: str, args: Sequence[Any]) -> int:
    """Bytes of a collective: of the larger side."""
    counted = KINDS[name][1]
    return sum(t.nbytes for t in tensors(args[counted])) if counted < len(args) else 0
