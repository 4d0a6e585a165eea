"""Kernels of overloads that PyTorch has for every device, in a way that does not do for this one.

lerp.Tensor, gcd, ...   looks at the operands' devices, makes the result, and asks the device for the op with `out`:
                        operands of the host would be refused; all of it is left to the CPU
kaiser_window           asks for a function in C++ that a device in Python has not
_lazy_clone             shares memory until one of two is written, which the allocator of a device has to know of
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from habana_tf.torch.ops.table import rows


def kernels(left_to_cpu: Callable[..., Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """By overload. left_to_cpu: takes an overload and its arguments, and gives its results."""
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        space, _, op = name.partition("::")
        if space == "aten" and op not in rows() and (_asks_late(name) or op.partition(".")[0] == "kaiser_window"):
            packet, _, kind = op.partition(".")
            overload = getattr(getattr(torch.ops.aten, packet), kind or "default")
            if not any(a.is_out for a in overload._schema.arguments):
                yield op, _left(left_to_cpu, overload)
    yield "_lazy_clone", lambda t: t.clone()


def _asks_late(name: str) -> bool:
    keys = "CPU", "CompositeExplicitAutogradNonFunctional"
    return all(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys)


def _left(left_to_cpu: Callable[..., Any], overload: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: left_to_cpu(overload, *args, **kwargs)
