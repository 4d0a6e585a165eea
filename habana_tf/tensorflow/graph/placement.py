"""Decides which nodes HPU takes into clusters, and for every other node why not.

What: a node is a candidate when TensorFlow's placer put it on HPU and the op table has a row with its element types.
`TF_PLACE_ON_CPU` moves nodes to the CPU. An HPU node without any kernel for HPU is moved there too: TensorFlow's
optimizers create ops after placement, and such a node would fail the whole graph. So is a node that only has a kernel
that stands in for one of HPU's (`stand_ins.py`).

Invariants: a node on the CPU stays there, also if the program put it there. A node that takes a resource is never
moved, since it must be where its variable is; except nodes with resources that exist on the CPU only.

    HPU: MatMul float    -> candidate            CPU: MatMul float   -> PLACED_ON_CPU
    HPU: MatMul complex  -> DTYPE                HPU: Square, no row -> moved to the CPU, CORE_REWRITE
    HPU: Unique          -> stays, since TensorFlow has a host kernel for every device: NO_ROW, and counted as the
                            CPU's (`of_the_host`)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from habana_tf.ir.dtypes import from_number
from habana_tf.tensorflow.graph.ops import (
    CONTROL_FLOW,
    RESOURCE,
    STRING,
    STRUCTURAL,
    VARIANT,
    OpFacts,
    argument_names,
    attr,
    calls_functions,
    device_type,
    facts,
    has_kernel,
    has_references,
    in_host_memory,
    input_types,
    on_cpu,
    output_types,
    stood_in_for,
)
from habana_tf.tensorflow.graph.reasons import Reason
from habana_tf.tensorflow.graph.view import Node, View
from habana_tf.tensorflow.lowering.row import Row
from habana_tf.tensorflow.lowering.table import lookup

BOUNDARY = frozenset({"_Arg", "_Retval", "_DeviceArg", "_DeviceRetval", "Placeholder", "HpuLaunch"})
_BRANCHES = frozenset({"If", "While", "StatelessIf", "StatelessWhile", "Case", "StatelessCase", "For", "_If", "_While"})
_CALLS = _BRANCHES | {"PartitionedCall", "StatefulPartitionedCall", "RemoteCall", "SymbolicGradient"}
VARIABLE_IO = frozenset({"VarHandleOp", "ReadVariableOp", "AssignVariableOp", "VarIsInitializedOp",
                          "DestroyResourceOp", "_VarHandlesOp", "DisableCopyOnRead"})  # fmt: skip
_NEUTRAL = BOUNDARY | VARIABLE_IO | {"NoOp", "Const"}
"""Never a candidate and never counted: the boundary of a graph, accesses to variables, and constants, which a launch
copies."""

_BOOKKEEPING = STRUCTURAL | {"IdentityN", "_EagerConst", "Assert", "Shape", "ShapeN", "Size", "Rank", "Reshape",
                             "ExpandDims", "Squeeze", "EnsureShape", "PlaceholderWithDefault"}  # fmt: skip
"""Ops that compute nothing from the elements of tensors."""
_NOT_HAD = (Reason.NO_ROW, Reason.DTYPE, Reason.STRING, Reason.SIDE_EFFECT)
"""Reasons that say that HPU cannot run a node."""


@dataclass
class Placement:
    """The verdict on every node: a row for a candidate, else a reason (None: boundary of the graph, not counted)."""

    rows: dict[Node, Row | None] = field(default_factory=dict)
    reasons: dict[Node, Reason | None] = field(default_factory=dict)
    moved: int = 0
    """Nodes moved to the CPU."""

    def takes(self, node: Node) -> bool:
        return node in self.rows

    def row(self, node: Node) -> Row | None:
        return self.rows.get(node)

    def refuse(self, node: Node, reason: Reason) -> None:
        self.rows.pop(node, None)
        self.reasons[node] = reason

    def follow(self, old: Node, new: Node) -> None:
        """`new` takes the place of `old` in the verdict."""
        if old in self.rows:
            self.rows[new] = self.rows.pop(old)
        else:
            self.reasons[new] = self.reasons.get(old)


def place(view: View, on_cpu_ops: Iterable[str] = (), excluded: Mapping[str, Reason] | None = None) -> Placement:
    """Judges every node and moves those that must go to the CPU.

    on_cpu_ops: the setting TF_PLACE_ON_CPU, op types or `all_nodes`. excluded: nodes that a former round
    found to be in no cluster, by name.
    """
    chosen = frozenset(on_cpu_ops)
    everything = "all_nodes" in chosen
    placement = Placement()
    for node in view.nodes:
        if excluded and node.name in excluded:
            placement.reasons[node] = excluded[node.name]
            continue
        if device_type(node.device) != "HPU":
            placement.reasons[node] = _off_device(node)
            continue
        reason = _refusal(node)
        if (everything or node.op in chosen) and _movable(node):
            reason = None if node.op in _NEUTRAL else Reason.SETTING
            _move(node, placement)
        elif _belongs_to_the_cpu(node):
            _move(node, placement)
        elif reason in (Reason.NO_ROW, Reason.DTYPE) and not _runs_on_hpu(node) and _movable(node):
            reason = Reason.CORE_REWRITE
            _move(node, placement)
        if reason is None and node.op not in _NEUTRAL and device_type(node.device) == "HPU":
            placement.rows[node] = lookup(node.op)
        else:
            placement.reasons[node] = reason
    return placement


def judge_new(view: View, placement: Placement) -> None:
    """Judges the nodes that a rewrite made since, or made into another op."""
    for node in view.nodes:
        if not node.alive:
            placement.rows.pop(node, None)
            placement.reasons.pop(node, None)
        elif node.original_name is None and not _judged_as(node, placement) and node.name not in view.preserved:
            placement.rows.pop(node, None)
            reason = _refusal(node) if device_type(node.device) == "HPU" else _off_device(node)
            if reason is None and node.op not in _NEUTRAL:
                placement.rows[node] = lookup(node.op)
                placement.reasons.pop(node, None)
            else:
                placement.reasons[node] = reason


def _judged_as(node: Node, placement: Placement) -> bool:
    """Whether a node is a candidate, as the op that it is now."""
    row = placement.row(node)
    return row is not None and row.op == node.op


def keep_names(view: View, placement: Placement) -> None:
    """Lets a preserved candidate compute under another name, so that it can be in a cluster.

    An Identity with the old name and the old control inputs stands behind it. Only for ops with one output; a
    preserved op that updates variables keeps its name anyway (`variables.py`).
    """
    for node in list(view.nodes):
        if node.name not in view.preserved or not placement.takes(node):
            continue
        row = placement.row(node)
        types = output_types(node)
        if row is not None and (row.variables or row.updates):
            continue
        if len(types) != 1:
            placement.refuse(node, Reason.PRESERVED)
            continue
        placement.reasons[view.front(node, types[0])] = None


def _refusal(node: Node) -> Reason | None:
    """Why an HPU node cannot be in a cluster; None for a candidate or a node that is never counted."""
    op = node.op
    if op in _NEUTRAL:
        return None
    if op in CONTROL_FLOW:
        return Reason.CONTROL_FLOW
    if op in _CALLS:
        return Reason.CALL
    known = facts(op)
    if known is None:
        return Reason.UNKNOWN
    row = lookup(op)
    if row is None and RESOURCE in input_types(node) and has_kernel(node, "HPU") and not op.startswith("Hpu"):
        return Reason.NO_ROW  # on a variable, by TensorFlow's CPU kernel (`runtime_hooks.registrations`)
    if row is None:
        return lacking(known, (*input_types(node), *output_types(node)))
    if known.stateful and not (row.stateful_random or row.updates or row.variables):
        return Reason.SIDE_EFFECT
    for name in known.type_attrs:
        tf_type = attr(node, name).type
        dtype = from_number(tf_type)
        if dtype is None:
            return _kind((*input_types(node), *output_types(node))) or Reason.DTYPE
        if name in row.types and dtype not in row.types[name]:
            return Reason.DTYPE
    resources = {*row.variables, *row.updates}
    for name, tf_type in zip(argument_names(node), input_types(node), strict=True):
        if tf_type == RESOURCE and name in resources:
            continue
        if from_number(tf_type) is None:
            return _kind((*input_types(node), *output_types(node))) or Reason.DTYPE
    if any(from_number(t) is None for t in output_types(node)):
        return _kind((*input_types(node), *output_types(node))) or Reason.DTYPE
    return None


def lacking(known: OpFacts, types: Collection[int]) -> Reason:
    """Why HPU has no row for an op. types: of its inputs and outputs."""
    kind = _kind(types)
    if known.stateful and kind in (None, Reason.STRING):  # assertions and printing have texts
        return Reason.SIDE_EFFECT
    return kind or Reason.NO_ROW


def _kind(types: Collection[int]) -> Reason | None:
    """The reason that lies in the kind of tensors a node works on."""
    kinds = ((VARIANT, Reason.VARIANT), (RESOURCE, Reason.RESOURCE), (STRING, Reason.STRING))
    return next((reason for tf_type, reason in kinds if tf_type in types), None)


def _off_device(node: Node) -> Reason | None:
    """Why a node that is not on HPU is where it is, as far as the placed graph tells."""
    if node.op in _NEUTRAL:
        return None
    reason = _refusal(node)
    if reason is None and node.op in _BOOKKEEPING and all(device_type(s.device) != "HPU" for s, _ in node.inputs):
        return Reason.TRIVIAL  # of what is in host memory: the shape of what an iterator gives
    return Reason.PLACED_ON_CPU if reason is None else reason


def _movable(node: Node) -> bool:
    """Whether a node may leave HPU: it takes no resource, TensorFlow needs it nowhere else, the CPU can run it."""
    if node.op in BOUNDARY or node.op in CONTROL_FLOW or node.op in STRUCTURAL or node.op in _CALLS:
        return False
    if RESOURCE in input_types(node) or RESOURCE in output_types(node):
        return False
    return facts(node.op) is not None and has_kernel(node, "CPU")


def _belongs_to_the_cpu(node: Node) -> bool:
    """Whether HPU has only a kernel that stands in for a node on it, or the node has a variable by reference.

    All nodes that share such a state (an array, an iterator, a variable) are of this kind, in every graph of a session,
    and move together. Variants stay where they are, since few kinds can be copied between devices; their kernels find
    them in host memory.
    """
    if node.op in CONTROL_FLOW or node.op in STRUCTURAL or node.op in _CALLS or node.op in BOUNDARY:
        return False
    if has_references(node.op):
        return has_kernel(node, "CPU")
    if _runs_on_hpu(node) or not stood_in_for(node):
        return False
    types = {*input_types(node), *output_types(node)}
    stays = VARIANT in types and RESOURCE not in types and not calls_functions(node.op)
    return not stays and has_kernel(node, "CPU")


def _runs_on_hpu(node: Node) -> bool:
    return has_kernel(node, "HPU") or has_kernel(node, "DEFAULT")


def of_the_host(node: Node, reason: Reason) -> bool:
    """Whether a node outside clusters is work of the CPU, though it may be on HPU.

    TensorFlow brings kernels for every device that work in host memory: `Unique`, say. Arithmetic on variables that
    HPU has not (of float64, say) is TensorFlow's CPU kernel on the card's memory. Shapes, copies, calls and control
    flow are no work; arithmetic on int32, which HPU has, is TRIVIAL where it is not worth a launch.
    """
    if device_type(node.device) != "HPU":
        return True
    if reason not in _NOT_HAD or node.op in _BOOKKEEPING:
        return False
    return RESOURCE in input_types(node) or in_host_memory(node)


def computes(op: str) -> bool:
    """Whether an op computes from the elements of tensors."""
    return op not in _NEUTRAL | _BOOKKEEPING | CONTROL_FLOW | _CALLS


def needs_support(op: str) -> bool:
    """Whether an op is one that a device has or has not: computation and control flow. Function calls and tensor lists
    are TensorFlow's own on every device."""
    own = op.startswith(("TensorList", "EmptyTensorList"))
    return op in CONTROL_FLOW | _BRANCHES or (computes(op) and not own)


def _move(node: Node, placement: Placement) -> None:
    node.device = on_cpu(node.device)
    placement.moved += 1


def rescue(view: View) -> int:
    """Moves HPU nodes that no kernel could run to the CPU, in a graph with its `HpuLaunch` nodes; returns how many."""
    placement = Placement()
    for node in view.nodes:
        judged = device_type(node.device) != "HPU" or node.op in _NEUTRAL or lookup(node.op) is not None
        if not judged and (_belongs_to_the_cpu(node) or (_movable(node) and not _runs_on_hpu(node))):
            _move(node, placement)
    return placement.moved
