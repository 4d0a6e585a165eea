"""Which eager ops ran on the CPU, and why, for the placement report; and why one that may not could not run on HPU.

What: the set of eager ops that ran, each with its device (`eager_kernels.py` adds them). The reasons are worked out
when a report is made.

Why: TensorFlow moves an eager op that HPU lacks to the CPU without a message. Ops with a kernel that stands in on HPU
(`stand_ins.py`) are counted by native code. A callback for every op would disable the fast path of dispatch.

Invariants: each op is listed once, without element types: an op that HPU has is only known to have run on the CPU too.
Input pipelines, tables and variables are left out.
"""

from __future__ import annotations

import re

from habana_tf.cluster import left_to_cpu
from habana_tf.hardware.device_state import is_loaded
from habana_tf.tensorflow.graph.ops import RESOURCE, VARIANT, device_type, facts, kernels
from habana_tf.tensorflow.graph.placement import computes, lacking
from habana_tf.tensorflow.graph.reasons import Reason
from habana_tf.tensorflow.lowering.table import lookup

RAN: set[tuple[str | bytes, str]] = set()
"""The ops that ran eagerly since HPU is loaded, each with the name of its device."""


def on_cpu() -> dict[str, Reason]:
    """The ops that ran on the CPU eagerly since HPU is loaded, and the ops and clusters of HPU that were left to it, by
    name, each with the reason."""
    if not is_loaded():
        return {}
    from habana_tf._native import _bridge

    ran = {(op.decode() if isinstance(op, bytes) else op, device_type(device)) for op, device in tuple(RAN) if device}
    ran |= {(op, "CPU") for op in _bridge.cpu_ops()}
    found = {op: reason for op, device in sorted(ran) if (reason := _why(op, device)) is not None}
    return {**found, **dict.fromkeys(left_to_cpu.noted(), Reason.BY_VALUE)}


_REFUSED = re.compile(
    r"Could not satisfy (?:explicit )?device specification '[^']*HPU[^']*'(?:\. enable_soft_placement=0"
    r"| because no supported kernel for HPU)"
)
_OF_GRAPH = re.compile(r"^Op: (\w+)$", re.MULTILINE)


def with_reason(message: str, op: str) -> str:
    """TensorFlow's message of a call that failed; where it says that an op that is pinned to HPU has no kernel there, a
    sentence that says why and what to do follows the first line.

    op: what was called, a function of a graph or an eager op. Of a graph the message names the op.
    """
    if not _REFUSED.search(message):
        return message
    named = _OF_GRAPH.search(message)
    lacking = named[1] if named else op
    first, rest = message.partition("\n")[::2]
    sentence = (
        f"HPU has no kernel for this {lacking} ({_lacking(lacking).value}): put it under tf.device('/CPU:0'), or let "
        "TensorFlow do so with tf.config.set_soft_device_placement(True)"
    )
    return f"{first}\n{sentence}\n{rest}" if rest else f"{first} {sentence}"


def _lacking(op: str) -> Reason:
    """Why HPU has no kernel for an op, or for the types that it met."""
    if lookup(op) is not None:
        return Reason.DTYPE
    known = facts(op)
    return Reason.NO_ROW if known is None else lacking(known, {argument.type for argument in known.arguments()})


def _why(op: str, device: str) -> Reason | None:
    """Why an op that ran on a device is the CPU's work; None if it is none."""
    known = facts(op)
    if known is None or not computes(op):
        return None
    arguments = known.arguments()
    types = {a.type for a in arguments}
    if RESOURCE in types or VARIANT in types:
        return None
    has = lookup(op) is not None
    if device == "CPU":
        return Reason.TYPE_OR_PROGRAM if has else _lacking(op)
    hosts = kernels(op, "DEFAULT")
    in_host_memory = hosts and all({a.name for a in arguments} <= k.host for k in hosts)
    return Reason.NO_ROW if in_host_memory and not has and not kernels(op, "HPU") else None
