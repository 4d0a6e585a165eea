"""Calls an overload in which a number stands for a tensor: `torch.bitwise_and(3, x)`.

PyTorch makes a tensor of such a number, marked so that the result's type follows the other operands, and hands it to a
device in Python as the number that it was. Few overloads take that back. The overload of the same op whose schema has
a number there does, and promotes types as the first one would have:

    bitwise_and.Tensor(3, x)           ->  bitwise_and.Scalar_Tensor(3, x)
    pow.Tensor_Tensor_out(2, x, out=y) ->  pow.Scalar_out(2, x, out=y)
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

_Number = (bool, int, float, complex)


def taking_numbers(overload: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The overload that takes a call's arguments: the given one where no number stands for a tensor, where it takes
    numbers for tensors, or where PyTorch has no other."""
    tensors = _tensors(overload)
    given = [tensors[k] for k, value in enumerate(args) if isinstance(value, _Number) and k in tensors]
    given += [name for name, value in kwargs.items() if isinstance(value, _Number) and name in tensors]
    return _sibling(overload, frozenset(given)) if given else overload


@functools.cache
def _tensors(overload: Any) -> dict[int | str, str]:
    """The names of arguments that are tensors, by place and by name; none where numbers will do."""
    if allowed(overload):
        return {}
    arguments = list(enumerate(overload._schema.arguments))
    return {key: a.name for k, a in arguments if str(a.type) == "Tensor" for key in (k, a.name)}


def allowed(overload: Any) -> bool:
    """Whether PyTorch takes a number for a tensor when it is called."""
    allows: bool = torch._C._should_allow_numbers_as_tensors(overload._schema.name.split("::")[1])
    return allows


@functools.cache
def _sibling(overload: Any, numbers: frozenset[str]) -> Any:
    """The overload of the same op whose arguments of these names are numbers and which is the same otherwise."""
    wanted = [(a.name, "number" if a.name in numbers else str(a.type), a.is_out) for a in overload._schema.arguments]
    space, packet = overload._schema.name.split("::")
    op = getattr(getattr(torch.ops, space), packet)
    for kind in op.overloads():
        found = getattr(op, kind)
        if [(a.name, str(a.type), a.is_out) for a in found._schema.arguments] == wanted:
            return found
    return overload
