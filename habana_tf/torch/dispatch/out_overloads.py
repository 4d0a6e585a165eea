"""Runs `out=` overloads as their functional twins and a copy: `add.out(x, y, out=z)` is `z.copy_(add(x, y))`.

The twin has a row in the table; it and the copy are recorded into one program, which writes into `z` directly. Calls
whose result has to be cast, or that give another size to a tensor with elements, run on PyTorch's CPU kernels, which
give their own warnings and errors.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from habana_tf.torch.ops.table import rows
from habana_tf.torch.record import cpu_check, number_forms
from habana_tf.torch.record.nested import tensors


@functools.cache
def without_out(overload: Any) -> Any:
    """The functional twin of an overload, which has the same arguments but `out`; None where the table has none."""
    schema = overload._schema
    if not any(a.is_out for a in schema.arguments):
        return None
    wanted = [(a.name, str(a.type)) for a in schema.arguments if not a.is_out]
    space, packet = schema.name.split("::")
    other = getattr(getattr(torch.ops, space), packet)
    for kind in other.overloads():
        found = getattr(other, kind)
        name = packet if kind == "default" else f"{packet}.{kind}"
        same = [(a.name, str(a.type)) for a in found._schema.arguments] == wanted and not found._schema.is_mutable
        if same and space == "aten" and name in rows():
            return found
    return None


def run(overload: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Runs an `out=` overload as its functional twin and a copy, and returns its `out` tensors. None if it has no twin,
    or if the twin's results have another type or size than `out`."""
    names = written(overload)
    given = [kwargs[name] for name in names if name in kwargs]
    outputs = list(tensors(given))
    if outputs and _overlap(outputs, tensors([args, *(v for name, v in kwargs.items() if name not in names)])):
        cpu_check.check(overload, args, kwargs)
    for t in outputs:
        if t.device.type != "hpu":
            raise RuntimeError(f"Expected out tensor to have device hpu:0, but got {t.device} instead")
    other = without_out(overload)
    if other is None:
        return None
    named = {name: value for name, value in kwargs.items() if name not in names}
    made = number_forms.taking_numbers(other, args, named)(*args, **named)
    results = list(made) if isinstance(made, (list, tuple)) else [made]
    if len(results) != len(outputs) or not all(map(_takes, outputs, results)):
        return None
    for t, result in zip(outputs, results, strict=True):
        if t.shape != result.shape:
            t.resize_(result.shape)
        t.copy_(result)
    return given[0] if len(given) == 1 else tuple(given)


@functools.cache
def written(overload: Any) -> tuple[str, ...]:
    """The arguments into which an overload writes its results."""
    return tuple(a.name for a in overload._schema.arguments if a.is_out)


def _overlap(written: Sequence[torch.Tensor], read: Iterable[torch.Tensor]) -> bool:
    """Whether a tensor that is written shares elements with another one, or has elements that share a place."""
    storages = [t.untyped_storage().data_ptr() if t.numel() else id(t) for t in (*written, *read)]
    twice = any(s == 0 and n > 1 for t in written for n, s in zip(t.shape, t.stride(), strict=True))
    return twice or len(set(storages)) < len(storages)


def _takes(out: torch.Tensor, result: torch.Tensor) -> bool:
    return out.dtype is result.dtype and (out.shape == result.shape or not out.numel())
