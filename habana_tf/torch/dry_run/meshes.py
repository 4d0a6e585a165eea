"""Clears what DTensor keeps by mesh, between two ranks that one process runs."""

from __future__ import annotations

import sys
from typing import Any

import torch

_DTENSOR = "torch.distributed.tensor"


class _Forget(torch.autograd.Function):
    """Clears what the thread of a backward pass keeps by mesh."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        _forget_natively()
        return grad


def _forget_natively() -> None:
    clear = getattr(torch._C, "_clear_DTensor_sharding_propagator_cache", None)
    if clear is not None:
        clear()


def forget() -> None:
    """Clears what DTensor keeps by mesh, in this thread and in that of backward passes: two ranks' meshes are equal,
    but not their places in them, nor the names of their groups."""
    loaded = [module for name, module in sys.modules.items() if name.startswith(_DTENSOR)]
    if not loaded:
        return
    from torch.distributed.tensor import DTensor

    values = (value for module in loaded for value in vars(module).values() if not isinstance(value, type))
    kept = [value for value in values if callable(getattr(value, "cache_clear", None))]
    for each in (*kept, DTensor._op_dispatcher.sharding_propagator.propagate_op_sharding):
        each.cache_clear()
    _forget_natively()
    with torch.enable_grad():
        _Forget.apply(torch.zeros((), device="hpu", requires_grad=True)).backward()
