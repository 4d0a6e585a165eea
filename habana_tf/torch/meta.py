"""What PyTorch says of a call without computing it: its meta kernels, and the CPU's words for wrong arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import torch


def tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for x in value:
            yield from tensors(x)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def raise_as_cpu(overload: Any, args: Any, kwargs: Any, why: Exception) -> NoReturn:
    """Raises what the CPU's kernel says to wrong arguments, whose words users know, or else `why`."""
    try:
        overload(*_placeholders(args), **_placeholders(kwargs))
    except Exception as theirs:
        raise theirs from None
    raise why from None


def _placeholders(value: Any) -> Any:
    """Arguments for a CPU kernel that is to refuse them."""
    if isinstance(value, torch.Tensor):
        return torch.zeros(value.shape, dtype=value.dtype, device="cpu")
    if isinstance(value, (list, tuple)):
        return [_placeholders(x) for x in value]
    return {k: _placeholders(x) for k, x in value.items()} if isinstance(value, dict) else value


def to_meta(value: Any) -> Any:
    """Arguments for a meta kernel."""
    if isinstance(value, torch.Tensor):
        if value.device.type == "cpu":
            return value
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, (list, tuple)):
        return [to_meta(x) for x in value]
    if isinstance(value, dict):
        return {k: to_meta(x) for k, x in value.items()}
    if isinstance(value, torch.device):
        return torch.device("meta")
    return value
