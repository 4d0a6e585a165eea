"""Kernels of overloads that PyTorch has for every device, but in a way that fails on this one:

lerp.Tensor, gcd, ...   PyTorch looks at the operands' devices, makes the result, and asks the device for the op
                        with `out`; operands of the host would be refused, so the whole op runs on the CPU
kaiser_window           PyTorch calls a function that only a device in C++ has
_lazy_clone             memory is shared until one of two tensors is written, which an allocator has to support
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from habana_tf.torch.ops.table import rows
from habana_tf.torch.record.overload import overload_of


def kernels(left_to_cpu: Callable[..., Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The kernels, by overload. left_to_cpu: runs an overload on the CPU."""
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        space, _, op = name.partition("::")
        if space == "aten" and op not in rows() and (_asks_late(name) or op.partition(".")[0] == "kaiser_window"):
            overload = overload_of(op)
            if not any(a.is_out for a in overload._schema.arguments):
                yield op, _left(left_to_cpu, overload)
    yield "_lazy_clone", lambda t: t.clone()


def _asks_late(name: str) -> bool:
    keys = "CPU", "CompositeExplicitAutogradNonFunctional"
    return all(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys)


def _left(left_to_cpu: Callable[..., Any], overload: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: left_to_cpu(overload, *args, **kwargs)
