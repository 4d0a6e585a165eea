"""Selects the ops of other accelerators that HPU registers without a lowering: TensorFlow's CPU kernels run them.

A program may put any op on an accelerator that TensorFlow has a GPU kernel for: arithmetic of float64, optionals,
arrays, iterators. With nothing for HPU under those names such a program ends in a placement error wherever TensorFlow
may not choose another device: in sessions without soft placement, where an op is held beside a variable on HPU, in the
bodies of functions that are not placed op by op.

So for every combination of op and element types that TensorFlow has for GPUs and for CPUs, and neither HPU nor every
device has, there is an HPU kernel that stands in. Its priority is below the CPU's: where the program leaves the choice,
the placer chooses the CPU as before. In a placed graph the graph pass moves the node to the CPU
(`tensorflow/graph/placement.py`); elsewhere the kernel runs TensorFlow's CPU kernel (`kernels/plugin/stock.h`).

Which ops GPUs have is read from the kernels of this process. TensorFlow's wheels that know no GPU list none: there the
CPU's kernels are taken of the ops that HPU has for other element types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from habana_tf.tensorflow.facts import opdefs
from habana_tf.tensorflow.facts.opdefs import RESOURCE, STRING, VARIANT

_NONE = ("_", "Xla", "Nccl", "Cudnn", "Collective", "TRT", "Anonymous")
"""Ops that are no program's to place (made by TensorFlow itself), or whose work is another device's; anonymous
iterators are made by eager code only, which finds a device by itself."""

used: dict[str, set[str]] = {}
"""Ops that ran by a kernel that stands in, with what they ran on: the element types of their attributes."""


class NotOnHpu(ValueError):
    """An op that the program wants on HPU and nowhere else."""

    status_code = 3  # INVALID_ARGUMENT


class NeedsTheGraphPass(RuntimeError):
    """An op whose state a kernel that stands in cannot reach."""

    status_code = 12  # UNIMPLEMENTED


def select(
    gpu: dict[str, list[Any]],
    cpu: dict[str, list[Any]],
    has: Callable[[str, dict[str, int]], bool],
    hosts: Callable[[str], frozenset[str]],
) -> list[tuple[str, dict[str, int], frozenset[str]]]:
    """(op, element types, arguments in host memory) of every kernel that is to stand in.

    gpu, cpu: TensorFlow's kernels by op, as KernelDefs. has: whether HPU or every device has a kernel for an op and
    types. hosts: the arguments in host memory of an op that HPU has for some types; empty for other ops.
    """
    wanted = gpu or {op: found for op, found in cpu.items() if hosts(op)}
    out: dict[tuple[str, tuple[tuple[str, int], ...]], frozenset[str]] = {}
    for op, found in wanted.items():
        if op.startswith(_NONE) or op not in cpu:
            continue
        ours: dict[tuple[str, ...], set[tuple[int, ...]]] | None = None
        for kernel in found:
            host: frozenset[str] | None = None
            read = opdefs.kernel(kernel)
            names = read.attrs()
            for combination in read.combinations():
                types = dict(zip(names, combination, strict=True))
                if (not gpu and STRING in combination) or has(op, types):
                    continue
                if ours is None:
                    ours = _known(cpu[op])
                if not any(_takes(known, taken, types) for known, taken in ours.items()):
                    continue
                if host is None:
                    host = read.host if gpu else hosts(op)
                out.setdefault((op, tuple(sorted(types.items()))), host)
    return [(op, dict(types), host) for (op, types), host in out.items()]


def _known(kernels: list[Any]) -> dict[tuple[str, ...], set[tuple[int, ...]]]:
    out: dict[tuple[str, ...], set[tuple[int, ...]]] = {}
    for kernel in map(opdefs.kernel, kernels):
        out.setdefault(kernel.attrs(), set()).update(kernel.combinations())
    return out


def _takes(names: tuple[str, ...], taken: set[tuple[int, ...]], types: dict[str, int]) -> bool:
    """Whether kernels that tell these type attributes apart take a node, of which other attributes may be known."""
    chosen = tuple(map(types.get, names))
    if None not in chosen:
        return chosen in taken
    return any(all(t in (None, own) for t, own in zip(chosen, each, strict=True)) for each in taken)


def plan(node: Any) -> tuple[str, list[tuple[str, bytes]]]:
    """(op, [(attribute, serialized AttrValue)]) to run a node by TensorFlow's CPU kernel; it is remembered as used.

    node: a NodeDef. Raises NeedsTheGraphPass for an op on state that belongs to a device, and NotOnHpu for one that
    computes while TensorFlow may not choose another device (`tf.config.set_soft_device_placement(False)`).
    """
    if needs_its_state(node.op):
        raise NeedsTheGraphPass(
            f"{node.op} '{node.name}' is on HPU, which leaves it to the CPU: its state is of the device it runs on, "
            "and only HPU's graph pass can move all that share it. This graph did not go through the pass. If plugin "
            "optimizers or Grappler are switched off (use_plugin_optimizers, disable_meta_optimizer), switch them "
            "on, or put the op under tf.device('/CPU:0')"
        )
    from tensorflow.python.eager import context
    from tensorflow.python.framework import dtypes

    types = [dtypes.as_dtype(value.type).name for value in node.attr.values() if value.type]
    keeps_books = any(arg.type == VARIANT for arg in opdefs.known(node.op).arguments())
    if not keeps_books and not context.context().soft_device_placement:
        raise NotOnHpu(
            f"{node.op} '{node.name}' of {', '.join(types) or 'any type'} is to run on HPU, which has no kernel for "
            "it, and soft device placement is off: put it under tf.device('/CPU:0'), or switch "
            "tf.config.set_soft_device_placement on"
        )
    used.setdefault(node.op, set()).add(", ".join(types))
    attrs = [(k, v.SerializeToString()) for k, v in node.attr.items() if not k.startswith("_")]
    return node.op, attrs


def needs_its_state(op: str) -> bool:
    """Whether an op works on a resource or on a variable by reference."""
    return any(arg.is_ref or arg.type == RESOURCE for arg in opdefs.known(op).arguments())
