"""A module that is moved to the device, or from it, keeps its parameters: the objects stay, and get other memory.

PyTorch does so between its own devices only. Elsewhere it makes new parameters, so that an optimizer made before, or a
second module that has the same weights, goes on with the old ones and nothing is said. It has another way too, which
swaps what two tensors hold; here that one is taken for moves of the device, and for no others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

_DEVICES = {"cpu", "hpu"}


def _moves(module: torch.nn.Module, fn: Callable[[torch.Tensor], torch.Tensor]) -> bool:
    """Whether a function moves a parameter of the module itself between the host and the device."""
    for p in module._parameters.values():
        if p is not None and p.device.type in _DEVICES:
            moved = fn(torch.empty(0, dtype=p.dtype, device=p.device))
            return {p.device.type, moved.device.type} == _DEVICES
    return False


def keeping_parameters(original: Any) -> Any:
    """`torch.nn.Module._apply`, which swaps where the device is concerned."""

    @functools.wraps(original)
    def _apply(self: torch.nn.Module, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        before = torch.__future__.get_swap_module_params_on_conversion()
        if before or not _moves(self, fn):
            return original(self, fn, recurse)
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            return original(self, fn, recurse)
        except RuntimeError as why:
            if "Couldn't swap" not in str(why):
                raise
        finally:
            torch.__future__.set_swap_module_params_on_conversion(before)
        return original(self, fn, recurse)  # a parameter that is referred to weakly, or by a graph of gradients

    return _apply
