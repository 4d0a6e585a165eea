"""Tensors within lists, tuples and dicts, as arguments and results of overloads have them.

Subclasses of these count as well, such as a model's outputs; `torch.utils._pytree` takes them for values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """All tensors, in their order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for x in value:
            yield from tensors(x)
    elif isinstance(value, dict):
        for x in value.values():
            yield from tensors(x)


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """The same lists, tuples and dicts with what a function gives for each value in them."""
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(function, x) for x in value)
    if isinstance(value, dict):
        return {name: mapped(function, x) for name, x in value.items()}
    return function(value)
