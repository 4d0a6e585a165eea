"""Which ops ran on the CPU eagerly: what TensorFlow remembers of them.

What: TensorFlow runs an eager op as a function of one node, which it makes when the op first runs on a device and names
after both. The names of its functions are all that is read here, when somebody asks.

    __wrapped__MatrixInverse_device_/job:localhost/replica:0/task:0/device:CPU:0      an op without an HPU kernel
    __wrapped__ConcatV2_N_2_device_/job:localhost/replica:0/task:0/device:HPU:0

Why so: TensorFlow moves an eager op that HPU does not have to the CPU by itself and tells nobody; one that a kernel
stands in for on HPU (`stand_ins.py`) is run there as an eager op of the CPU's. A callback on every op would tell, and
take the fast way of dispatch from all of them.

Invariants: nothing happens before the question. Each op is told once. A name has no element types: of an op that HPU
has only this much is known, that it ran on the CPU too. Input pipelines, tables and variables are left out.
"""

from __future__ import annotations

import re
from typing import Any

from ..device_state import is_loaded
from ..lowering.table import lookup
from .ops import RESOURCE, STRING, VARIANT, device_type, facts, kernels
from .placement import computes
from .reasons import Reason

_NAME = re.compile(r"__wrapped__((?:[^_]|__)+)(?:_.*)?_device_(.*)")
"""The op, its underscores doubled; lengths of its lists; the device."""


def on_cpu() -> dict[str, Reason]:
    """The ops that ran on the CPU eagerly since HPU is loaded, by name, each with the reason."""
    from tensorflow.python.eager import context

    current: Any = context._context
    if not is_loaded() or current is None or not current._initialized:
        return {}
    found = {}
    for name in sorted(current.list_function_names()):
        text = name.decode() if isinstance(name, bytes) else name
        match = _NAME.fullmatch(text)
        op = match[1].replace("__", "_") if match else ""
        if match and (reason := _why(op, device_type(match[2]))) is not None:
            found[op] = reason
    return found


def _why(op: str, device: str) -> Reason | None:
    """Why an op that ran on a device is the CPU's work; None if it is none."""
    known = facts(op)
    if known is None or not computes(op):
        return None
    arguments = (*known.inputs, *known.outputs)
    types = {a.type for a in arguments}
    if RESOURCE in types or VARIANT in types:
        return None
    has = lookup(op) is not None
    if device == "CPU":
        if has:
            return Reason.TYPE_OR_PROGRAM
        if STRING in types:
            return Reason.STRING
        return Reason.SIDE_EFFECT if known.stateful else Reason.NO_ROW
    hosts = kernels(op, "DEFAULT")
    in_host_memory = hosts and all({a.name for a in arguments} <= k.host for k in hosts)
    return Reason.NO_ROW if in_host_memory and not has and not kernels(op, "HPU") else None
