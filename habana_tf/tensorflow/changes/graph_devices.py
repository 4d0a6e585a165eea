"""Puts ops that HPU cannot take on the CPU of the same task, when a graph is made under `tf.device("/HPU:0")`.

TensorFlow's placer refuses a whole graph for one op that is put on a device without a kernel for it, unless the session
allows soft placement. Programs put their input pipelines (`tf.data`, lookup tables, queues, readers, strings,
decoders) under the device with the rest of the model. Here such an op gets the CPU as its device as soon as it is made,
before any placer sees it, so that what shares its state (a queue, a table, a variable by reference) is on one device.

Eager ops are not touched: TensorFlow chooses their device, or raises an error, by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from habana_tf.host_changes.change import Change, Group
from habana_tf.tensorflow.facts import opdefs
from habana_tf.tensorflow.facts.opdefs import RESOURCE, KernelAttr
from habana_tf.tensorflow.graph.ops import device_type, on_cpu


def _with_homes(apply: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """`Graph._apply_device_functions`, which gives a new op the device of the program's `tf.device`."""

    def _apply_device_functions(self: Any, op: Any) -> None:
        apply(self, op)
        _moved(op)

    return _apply_device_functions


def _apart(create: Callable[..., None]) -> Callable[..., None]:
    """`Graph._create_op_helper`, which then puts the op where that is which it is made beside (`tf.colocate_with`)."""

    def _create_op_helper(self: Any, op: Any, compute_device: bool = True) -> None:
        create(self, op, compute_device)
        if self._colocation_stack and _moved(op):
            op._clear_attr("_class")

    return _create_op_helper


def _moved(op: Any) -> bool:
    """Puts an op on the CPU if it is on HPU and cannot be there; whether it did."""
    device = op.device
    moved = bool(device) and device_type(device) == "HPU" and belongs_to_the_cpu(op)
    if moved:
        op._set_device_from_string(on_cpu(device))
    return moved


def belongs_to_the_cpu(op: Any) -> bool:
    """Whether an op of a graph cannot be on HPU: no kernel there takes its element types, or it works on state that
    only the CPU's kernels share."""
    names = _asked(op.type)
    if names is None:
        return False
    return not _has_home(op.type, tuple(_value(op.get_attr(name)) for name in names))


def _value(attr: Any) -> KernelAttr:
    if isinstance(attr, bytes):
        return attr, ()
    return b"", tuple(dtype.as_datatype_enum for dtype in (attr if isinstance(attr, (list, tuple)) else (attr,)))


@opdefs.remembered
def _asked(op: str) -> tuple[str, ...] | None:
    """The attributes by which the kernels differ that an op has on HPU; None for what TensorFlow does not know, or
    the CPU cannot run either."""
    if opdefs.facts(op) is None or not opdefs.kernels(op, "CPU"):
        return None
    return opdefs.telling(_homes(op))


@opdefs.remembered
def _homes(op: str) -> tuple[opdefs.OpKernel, ...]:
    """The kernels by which an op may stay on HPU: none where its state is the CPU's."""
    facts = opdefs.known(op)
    if facts.has_references() or "Queue" in op:  # readers and queues that only the CPU has take every queue
        return ()
    found = (*opdefs.kernels(op, "HPU"), *opdefs.kernels(op, "DEFAULT"))
    stateful = facts.calls_functions() or any(arg.type == RESOURCE for arg in facts.arguments())
    stateful = stateful and not op.startswith("TensorArray")  # beside what is written to it: the graph pass moves both
    return () if stateful and all(kernel.priority == opdefs.STAND_IN for kernel in found) else found


@opdefs.remembered
def _has_home(op: str, values: tuple[KernelAttr, ...]) -> bool:
    """Whether a kernel on HPU takes an op whose attributes (`_asked`) have these values."""
    return opdefs.any_takes(_homes(op), values)


GRAPH_DEVICES = Group(
    "graph_devices",
    "a graph with input pipelines, tables, queues or strings under `tf.device('/HPU:0')` ends in a placement error "
    "where the session does not allow soft placement",
    (
        Change("tensorflow.python.framework.ops", "Graph._apply_device_functions", _with_homes),
        Change("tensorflow.python.framework.ops", "Graph._create_op_helper", _apart),
    ),
)
