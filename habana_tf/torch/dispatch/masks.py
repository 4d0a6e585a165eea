"""Takes uint8 masks where PyTorch means booleans: `x[mask]`, `torch.where(mask, x, y)`.

PyTorch's kernels of other devices take them and warn; meta kernels, by which shapes are known here, refuse them. A mask
on the host without a dimension is copied to the card, because it would be read as a number else.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

_INDEX = "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."
_WHERE = (
    "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future version of "
    "PyTorch. Use a boolean condition instead."
)
_INDICES = "index.Tensor", "_unsafe_index.Tensor", "index_put", "index_put_", "_unsafe_index_put", "_index_put_impl_"


def of_booleans(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that makes booleans of uint8 masks and calls the given one; the given one itself for overloads without
    masks."""
    if name in _INDICES:
        return functools.partial(_indexed, call)
    return functools.partial(_chosen, call) if name == "where.self" else call


def _indexed(call: Callable[..., Any], x: torch.Tensor, indices: Sequence[torch.Tensor | None], *rest: Any) -> Any:
    for index in indices:
        if index is not None and (index.dtype is torch.uint8 or index.dtype is torch.bool and not index.dim()):
            return call(x, [_mask(index) for index in indices], *rest)
    return call(x, indices, *rest)


def _mask(index: torch.Tensor | None) -> torch.Tensor | None:
    if index is None or index.dtype not in (torch.uint8, torch.bool):
        return index
    if index.dtype is torch.uint8:
        warnings.warn(_INDEX, UserWarning, stacklevel=4)
    return index.to("hpu", torch.bool)


def _chosen(call: Callable[..., Any], condition: torch.Tensor, *rest: Any) -> Any:
    if condition.dtype is torch.uint8:
        warnings.warn(_WHERE, UserWarning, stacklevel=3)
        condition = condition.to(torch.bool)
    return call(condition, *rest)
