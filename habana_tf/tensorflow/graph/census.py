"""Counts what became of every node of a graph: a sum that closes, for the placement report.

A graph is counted before the pass changes it, but for conds that the shapes decide: of these only the branch that runs
is there. Behind the pass each of those nodes is of one kind: in a cluster, on HPU
by itself, on the CPU, or none that computes: a constant, an access to a variable, the graph's rim. What the pass
replaced (a `ResourceApplyAdam` by arithmetic) or dropped counts as rewritten.

    272 nodes  =  143 in clusters + 2 alone + 1 on the CPU + 62 constants + 54 variables + 6 rim + 4 rewritten
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import FrameType

from habana_tf.tensorflow.graph.ops import device_type
from habana_tf.tensorflow.graph.placement import BOUNDARY, VARIABLE_IO, Placement, needs_support, of_the_host
from habana_tf.tensorflow.graph.view import Node, View


class Kind(Enum):
    """What a node is behind the pass; the value is what people read."""

    CLUSTER = "in clusters"
    ALONE = "on HPU by themselves"
    VARIABLE = "accesses to variables"
    CONSTANT = "constants"
    RIM = "arguments and results"
    ORDER = "for order only"
    REWRITTEN = "rewritten by the pass"
    CAST = "casts to and from bf16"
    CPU = "on the CPU"
    CPU_IDLE = "constants, arguments and variables of the CPU"


OFF_CARD = (Kind.CPU, Kind.CPU_IDLE)
_COMPUTING = (Kind.CLUSTER, Kind.ALONE, Kind.REWRITTEN)


@dataclass(frozen=True)
class Census:
    """The nodes of a graph before the pass, each with its op then."""

    nodes: tuple[tuple[Node, str], ...] = ()

    @classmethod
    def of(cls, view: View) -> Census:
        return cls(tuple((node, node.op) for node in view.alive()))

    def counted(self, placement: Placement, members: Iterable[Node]) -> Counter[tuple[Kind, str]]:
        """How many nodes of which op are of which kind. members: the nodes of all clusters."""
        inside = set(members)
        return Counter((_kind(node, op, placement, inside), op) for node, op in self.nodes)


def by_kind(counted: Mapping[tuple[Kind, str], int], casts: int) -> dict[Kind, int]:
    """How many nodes are of which kind; only those that there are. casts: those that the bf16 conversion added."""
    counts = Counter({Kind.CAST: casts})
    for (kind, _), n in counted.items():
        counts[kind] += n
    return {kind: counts[kind] for kind in Kind if counts[kind]}


def computing(counted: Mapping[tuple[Kind, str], int]) -> dict[str, int]:
    """The program's computation and control flow on HPU, with what the pass replaced: op -> how many."""
    counts: Counter[str] = Counter()
    for (kind, op), n in counted.items():
        if kind in _COMPUTING and needs_support(op):
            counts[op] += n
    return dict(counts)


def _kind(node: Node, op: str, placement: Placement, inside: set[Node]) -> Kind:
    if node in inside:
        return Kind.CLUSTER
    reason = placement.reasons.get(node)
    if reason is not None and (node.alive or op != "Const"):
        return Kind.CPU if of_the_host(node, reason) else Kind.ALONE
    if device_type(node.device) != "HPU":
        return Kind.CPU_IDLE if op in BOUNDARY | VARIABLE_IO | {"Const", "NoOp"} else Kind.CPU
    if op == "Const":  # those that only clusters use went into them
        return Kind.CONSTANT
    if not node.alive or node.op != op:
        return Kind.REWRITTEN
    if op in VARIABLE_IO:
        return Kind.VARIABLE
    if op in BOUNDARY:
        return Kind.RIM
    return Kind.ORDER if op == "NoOp" else Kind.REWRITTEN


_TRACED = re.compile(r"__(?:inference|forward|backward)_(.+?)_\d+(?:_|$)")


def readable(function: str) -> str:
    """The user's name of a function: `__inference_train_function_298` is train_function."""
    found = _TRACED.match(function)
    return found[1] if found else function


def running() -> str:
    """The function that Python is about to call, by its user's name; empty in a session or in another thread.

    TensorFlow hands a plugin a graph without its name, but does it within the function's first call.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.endswith("atomic_function.py"):
            name = getattr(frame.f_locals.get("self"), "name", b"")
            return readable(name.decode() if isinstance(name, bytes) else str(name))
        frame = frame.f_back
    return ""
