"""What PyTorch says of a call without computing it: arguments for its meta kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for x in value:
            yield from tensors(x)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def to_meta(value: Any) -> Any:
    """Arguments for a meta kernel."""
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, (list, tuple)):
        return [to_meta(x) for x in value]
    if isinstance(value, dict):
        return {k: to_meta(x) for k, x in value.items()}
    if isinstance(value, torch.device):
        return torch.device("meta")
    return value
