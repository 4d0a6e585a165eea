"""The order of a tensor's axes in memory."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch


@functools.lru_cache(maxsize=4096)
def order_of_strides(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes of a tensor as its storage holds them; None where its strides are not dense."""
    order = tuple(sorted(range(len(shape)), key=lambda k: (-strides[k], -shape[k], k)))
    step = 1
    for k in reversed(order):
        if shape[k] != 1 and strides[k] != step:
            return None
        step *= shape[k]
    return order


def hints(sizes: Sequence[Any]) -> tuple[int, ...]:
    """Sizes as numbers; of symbols, those that they had when a graph was traced."""
    return tuple(n if isinstance(n, int) else int(n.node.hint) for n in sizes)


def ordered(t: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    """A tensor with its axes in this order in memory: the same one, or a copy."""
    if not t.numel() or order_of_strides(t.shape, t.stride()) == order or t.permute(order).is_contiguous():
        return t
    back = [order.index(k) for k in range(len(order))]
    return t.permute(order).contiguous().permute(back)


@functools.lru_cache(maxsize=4096)
def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a tensor that is held row by row."""
    strides = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def format_of(*operands: torch.Tensor | None) -> torch.memory_format:
    """The memory format of the result of an op on pictures: channels last if one of its operands is."""
    from torch._prims_common import suggest_memory_format

    found = (suggest_memory_format(t) for t in operands if t is not None)
    return next((each for each in found if each is not torch.contiguous_format), torch.contiguous_format)
