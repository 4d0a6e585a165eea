"""Helpers for programs that manage HPU graphs of their own, one for each kind of call, as many of Habana's samples do:

key = input_hash((args, kwargs))
if key not in known: known[key] = CachedParams(inputs, outputs, graph)    after a capture with these inputs
copy_to(known[key].graph_inputs, (args, kwargs)); known[key].graph.replay()
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

__all__ = ["CachedParams", "copy_to", "input_hash"]


@dataclass
class CachedParams:
    """A graph with the arguments that it reads and the results that it writes."""

    graph_inputs: Any
    graph_outputs: Any
    graph: Any = None


def input_hash(obj: Any) -> int:
    """A hash of arguments. Equal for arguments with the same structure, the same shapes, types and devices of tensors,
    and equal other values. Raises TypeError for values that cannot be hashed."""
    leaves, spec = pytree.tree_flatten(obj)
    return hash((
        str(spec),
        *((x.shape, x.dtype, x.device) if isinstance(x, torch.Tensor) else (type(x), x) for x in leaves),
    ))  # fmt: skip


def copy_to(dst: Any, src: Any) -> None:
    """Copies the tensors of `src` into those of `dst`, in arguments of the same structure. Raises ValueError if the
    structures differ, and what `Tensor.copy_` raises."""
    leaves, spec = pytree.tree_flatten(dst)
    given, other = pytree.tree_flatten(src)
    if spec != other:
        raise ValueError(f"the arguments to copy have another structure: {other} for {spec}")
    with torch.no_grad():
        for to, value in zip(leaves, given, strict=True):
            if isinstance(to, torch.Tensor):
                to.copy_(value)
