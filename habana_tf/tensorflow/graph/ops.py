"""Facts about a node that the passes use: its op's definition (`opdefs.py`), and where it is placed."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from habana_tf.tensorflow.facts import opdefs
from habana_tf.tensorflow.facts.opdefs import (
    BOOL,
    INT32,
    RESOURCE,
    STRING,
    VARIANT,
    OpArgument,
    OpFacts,
    OpKernel,
    facts,
)
from habana_tf.tensorflow.graph.view import Node

__all__ = [
    "BOOL", "CONTROL_FLOW", "FORWARDING", "INT32", "RESOURCE", "STRING", "STRUCTURAL", "VARIANT", "OpArgument",
    "OpFacts", "argument_names", "attr", "calls_functions", "device_type", "facts", "has_kernel", "has_references",
    "in_host_memory", "input_types", "kernels", "on_cpu", "output_names", "output_types", "stood_in_for",
]  # fmt: skip

CONTROL_FLOW = frozenset({"Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "_SwitchN"})
STRUCTURAL = frozenset({"Identity", "NoOp", "Snapshot", "StopGradient", "PreventGradient"})
"""Pass their input on; worth nothing by themselves."""
FORWARDING = frozenset({"Identity", "Snapshot", "StopGradient", "PreventGradient"})
"""Output 0 is input 0."""


def attr(node: Node, name: str) -> Any:
    """An AttrValue of a node, or the default of its op; KeyError if it has neither."""
    known = facts(node.op)
    if known is not None:
        return known.attr(node.proto, name)
    if name not in node.proto.attr:
        raise KeyError(f"{node!r} has no attribute {name!r}")
    return node.proto.attr[name]


def output_types(node: Node) -> list[int]:
    """TensorFlow's DataType number of every output; empty for an op that is not known."""
    known = facts(node.op)
    return known.output_types(node.proto) if known else []


def input_types(node: Node) -> list[int]:
    """TensorFlow's DataType number of every data input; empty for an op that is not known."""
    known = facts(node.op)
    return known.input_types(node.proto) if known else []


def argument_names(node: Node) -> list[str]:
    """For every data input, the name of the OpDef argument it belongs to."""
    known = facts(node.op)
    return known.input_names(node.proto) if known else []


def output_names(node: Node) -> list[str]:
    """For every output, the name of the OpDef argument it belongs to."""
    known = facts(node.op)
    return known.output_names(node.proto) if known else []


@lru_cache(maxsize=4096)
def device_type(device: str) -> str:
    """HPU, CPU, ... of a full device string; empty when it names none."""
    for part in reversed(device.split("/")):
        if part.startswith("device:"):
            return part.split(":")[1].upper()
    return ""


@lru_cache(maxsize=4096)
def on_cpu(device: str) -> str:
    """The first CPU of the task of a device."""
    task = "/".join(p for p in device.split("/") if p and not p.startswith("device:"))
    return f"/{task}/device:CPU:0" if task else "/device:CPU:0"


def calls_functions(op: str) -> bool:
    """Whether an op has functions among its attributes."""
    known = facts(op)
    return known is not None and known.calls_functions()


def has_references(op: str) -> bool:
    """Whether an op takes or gives a variable by reference (as TF1's variables were)."""
    known = facts(op)
    return known is not None and known.has_references()


def kernels(op: str, device: str) -> tuple[OpKernel, ...]:
    """The kernels TensorFlow has for an op on a device type (DEFAULT is one), without those that stand in."""
    return _kernels(op, device, standing_in=False)


@opdefs.remembered
def _kernels(op: str, device: str, standing_in: bool) -> tuple[OpKernel, ...]:
    found = opdefs.kernels(op, device)
    return tuple(k for k in found if (k.priority == opdefs.STAND_IN) is standing_in)


def _runs(kernel: OpKernel, node: Node) -> bool:
    return kernel.takes(opdefs.known(node.op), node.proto)


def stood_in_for(node: Node) -> bool:
    """Whether a node may be placed on HPU only because TensorFlow's CPU kernel stands in there (`stand_ins.py`)."""
    return any(_runs(kernel, node) for kernel in _kernels(node.op, "HPU", standing_in=True))


def has_kernel(node: Node, device: str) -> bool:
    """Whether TensorFlow has a kernel for a node on a device type, by its attributes."""
    asked = _asked(node.op, device)
    if not asked:
        return bool(kernels(node.op, device))
    facts = opdefs.known(node.op)
    return _has_kernel(node.op, device, tuple(map(_value, (facts.attr(node.proto, name) for name in asked))))


def _value(attr: Any) -> opdefs.KernelAttr:
    return attr.s, tuple(attr.list.type) or (attr.type,)


@opdefs.remembered
def _asked(op: str, device: str) -> tuple[str, ...]:
    """The attributes by which an op's kernels on a device type differ."""
    return opdefs.telling(kernels(op, device))


@opdefs.remembered
def _has_kernel(op: str, device: str, values: tuple[opdefs.KernelAttr, ...]) -> bool:
    """A graph asks for the same few combinations again and again."""
    return opdefs.any_takes(kernels(op, device), values)


def in_host_memory(node: Node) -> bool:
    """Whether a node on HPU is the host's work: TensorFlow runs it by a kernel for any device, from host memory to
    host memory."""
    known = facts(node.op)
    if known is None or has_kernel(node, "HPU"):
        return False
    names = {argument.name for argument in known.arguments()}
    return bool(names) and any(names <= k.host for k in kernels(node.op, "DEFAULT") if _runs(k, node))
