"""What the passes ask of an op: its OpDef in a form that is quick to read.

Types, argument slices and statefulness are asked for every node of a graph; an OpDef is turned into a small
`OpFacts` once per op and process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from .. import stand_ins
from .view import Node

RESOURCE, VARIANT, STRING = 20, 21, 7
INT32, BOOL = 3, 10

CONTROL_FLOW = frozenset({"Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "_SwitchN"})
STRUCTURAL = frozenset({"Identity", "NoOp", "Snapshot", "StopGradient", "PreventGradient"})
"""Pass their input on; worth nothing by themselves."""
FORWARDING = frozenset({"Identity", "Snapshot", "StopGradient", "PreventGradient"})
"""Output 0 is input 0."""


@dataclass(frozen=True)
class Argument:
    """One input or output argument of an OpDef."""

    name: str
    type: int
    type_attr: str
    number_attr: str
    type_list_attr: str


@dataclass(frozen=True)
class OpFacts:
    """An OpDef. `type_attrs`: its attributes of kind type."""

    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    type_attrs: tuple[str, ...]
    stateful: bool
    defaults: dict[str, Any] = field(hash=False, compare=False, default_factory=dict)


@cache
def facts(op: str) -> OpFacts | None:
    """The facts of an op; None for one that TensorFlow does not know (a function, say)."""
    from tensorflow.python.framework import op_def_registry

    op_def = op_def_registry.get(op)
    if op_def is None:
        return None

    def arguments(args: Any) -> tuple[Argument, ...]:
        return tuple(Argument(a.name, a.type, a.type_attr, a.number_attr, a.type_list_attr) for a in args)

    defaults = {a.name: a.default_value for a in op_def.attr if a.HasField("default_value")}
    types = tuple(a.name for a in op_def.attr if a.type == "type")
    return OpFacts(arguments(op_def.input_arg), arguments(op_def.output_arg), types, op_def.is_stateful, defaults)


def attr(node: Node, name: str) -> Any:
    """An AttrValue of a node, or the default of its op; KeyError if it has neither."""
    attrs = node.proto.attr
    if name in attrs:
        return attrs[name]
    known = facts(node.op)
    if known is None or name not in known.defaults:
        raise KeyError(f"{node!r} has no attribute {name!r}")
    return known.defaults[name]


def _types(node: Node, arguments: tuple[Argument, ...]) -> list[int]:
    out: list[int] = []
    for a in arguments:
        if a.type_list_attr:
            out.extend(attr(node, a.type_list_attr).list.type)
        else:
            tf_type = attr(node, a.type_attr).type if a.type_attr else a.type
            if a.number_attr:
                out.extend([tf_type] * attr(node, a.number_attr).i)
            else:
                out.append(tf_type)
    return out


def output_types(node: Node) -> list[int]:
    """TensorFlow's DataType number of every output; empty for an op that is not known."""
    known = facts(node.op)
    return _types(node, known.outputs) if known else []


def input_types(node: Node) -> list[int]:
    """TensorFlow's DataType number of every data input; empty for an op that is not known."""
    known = facts(node.op)
    return _types(node, known.inputs) if known else []


def argument_names(node: Node) -> list[str]:
    """For every data input, the name of the OpDef argument it belongs to."""
    known = facts(node.op)
    out: list[str] = []
    for a in known.inputs if known else ():
        if a.type_list_attr:
            out.extend([a.name] * len(attr(node, a.type_list_attr).list.type))
        else:
            out.extend([a.name] * (attr(node, a.number_attr).i if a.number_attr else 1))
    return out


def output_names(node: Node) -> list[str]:
    """For every output, the name of the OpDef argument it belongs to."""
    known = facts(node.op)
    out: list[str] = []
    for a in known.outputs if known else ():
        if a.type_list_attr:
            out.extend([a.name] * len(attr(node, a.type_list_attr).list.type))
        else:
            out.extend([a.name] * (attr(node, a.number_attr).i if a.number_attr else 1))
    return out


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


@cache
def calls_functions(op: str) -> bool:
    """Whether an op has functions among its attributes."""
    from tensorflow.python.framework import op_def_registry

    op_def = op_def_registry.get(op)
    return op_def is not None and any(a.type in ("func", "list(func)") for a in op_def.attr)


@dataclass(frozen=True)
class Kernel:
    """A kernel TensorFlow has. types: what it is limited to, per type attribute; host: arguments in host memory."""

    types: tuple[tuple[str, frozenset[int]], ...]
    host: frozenset[str]

    def takes(self, node: Node) -> bool:
        """Whether it runs a node, by the node's type attributes."""
        for name, allowed in self.types:
            value = attr(node, name)
            if not allowed.issuperset(list(value.list.type) or [value.type]):
                return False
        return True


def kernels(op: str, device: str) -> tuple[Kernel, ...]:
    """The kernels TensorFlow has for an op on a device type (DEFAULT is one), without those that stand in."""
    return _kernels(op, device, standing_in=False)


@cache
def _kernels(op: str, device: str, standing_in: bool) -> tuple[Kernel, ...]:
    from tensorflow.python.framework import kernels as registry

    found = registry.get_registered_kernels_for_op(op).kernel
    return tuple(
        Kernel(
            tuple((c.name, frozenset(c.allowed_values.list.type)) for c in k.constraint), frozenset(k.host_memory_arg)
        )
        for k in found
        if k.device_type == device and not k.label and (k.priority == stand_ins.PRIORITY) is standing_in
    )


def stood_in_for(node: Node) -> bool:
    """Whether a node may be placed on HPU only because TensorFlow's CPU kernel stands in there (`stand_ins.py`)."""
    return any(kernel.takes(node) for kernel in _kernels(node.op, "HPU", standing_in=True))


@cache
def has_references(op: str) -> bool:
    """Whether an op takes or gives a variable by reference (as TF1's variables were)."""
    from tensorflow.python.framework import op_def_registry

    op_def = op_def_registry.get(op)
    return op_def is not None and any(a.is_ref for a in (*op_def.input_arg, *op_def.output_arg))


def has_kernel(node: Node, device: str) -> bool:
    """Whether TensorFlow has a kernel for a node on a device type, by its type attributes."""
    return any(kernel.takes(node) for kernel in kernels(node.op, device))


def in_host_memory(node: Node) -> bool:
    """Whether a node on HPU is the host's work: TensorFlow runs it by a kernel for any device, from host memory to
    host memory."""
    known = facts(node.op)
    if known is None or has_kernel(node, "HPU"):
        return False
    names = {argument.name for argument in (*known.inputs, *known.outputs)}
    return bool(names) and any(names <= k.host for k in kernels(node.op, "DEFAULT") if k.takes(node))
