"""Passes variables that a launch updates by handle, so that the new values are written over the old ones.

What: a variable that one launch reads and updates becomes an input of that launch by its handle; the read before it and
the assignment behind it go. The pair (input of the cluster, its output) is in the node's attribute `updates`.

    v ─┬─ ReadVariableOp ─ HpuLaunch ─┐
       └────────────────── AssignVariableOp          ->      v ─ HpuLaunch(updates: 0 -> 0)

Why: the state of an optimizer is read and written once a step. With new memory for each new value a step touches twice
as much memory, and two steps' values exist at once. Also, an update by one op must stay one step: between a read and an
assignment in the graph the updates of other threads would be lost. So a launch is passed the variable also where other
nodes use the value that was read; the read stays for them, and the launch updates the value at the time it runs.

Invariants: other nodes only read the variable, so only the assignment's order matters: the launch waits for its control
inputs, unless those are behind the launch, and nodes that waited for the assignment wait for the launch (in a loop, the
next iteration). Read, launch and assignment run under one condition. A reader that holds the old value keeps it: the
launch then makes a copy (kernels/plugin/updated_variables.cc). Excluded are variables of unknown size, those of
sessions (where one may be uninitialized, which TensorFlow would not report in the same way) and updates that move
elements. In a graph that calls Python, which may update a variable between its read and its assignment, only updates
by one op are passed by handle: such an op takes the variable's value at the time it runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from habana_tf.tensorflow.clusters.cluster import TensorFlowCluster, parsed
from habana_tf.tensorflow.graph.frames import Flow
from habana_tf.tensorflow.graph.shapes import Shapes
from habana_tf.tensorflow.graph.variable_handles import ASKS, PYTHON, VariableKey, accesses, handle_key
from habana_tf.tensorflow.graph.view import Node, View, controls_past, reached, vanish
from habana_tf.tensorflow.lowering.table import lookup

_MOVES = frozenset({
    "ConcatV2", "Gather", "GatherNd", "GatherV2", "MirrorPad", "Pad", "PadV2", "ResourceGather", "ResourceGatherNd",
    "ReverseV2", "Roll", "Slice", "StridedSlice", "Tile", "Transpose",
})  # fmt: skip
"""Ops whose result would be made in other memory and copied: slower than an assignment."""


def convert(view: View, flow: Flow) -> dict[str, int]:
    """Rewrites every launch of a graph; returns how many variables each one updates, by name."""
    launches = [n for n in view.alive() if n.op == "HpuLaunch"]
    if not launches:
        return {}
    takers = _takers(view)
    python = any(n.op in PYTHON for n in view.alive())
    return {launch.name: _hand_over(view, flow, launch, takers, python) for launch in launches}


def _takers(view: View) -> dict[VariableKey | None, list[Node]]:
    """For every variable, the nodes that read or write its value."""
    out: dict[VariableKey | None, list[Node]] = {}
    for node, taken in accesses(view.topological()).items():
        for key in taken.values() if node.op not in ASKS else ():
            out.setdefault(key, []).append(node)
    return out


@dataclass(frozen=True)
class _UpdateInPlace:
    """A variable of a launch. at, output: its numbers among the cluster's inputs and outputs. kept: the read stays."""

    at: int
    output: int
    read: Node
    assign: Node
    kept: bool


def _hand_over(view: View, flow: Flow, launch: Node, takers: dict[VariableKey | None, list[Node]], python: bool) -> int:
    consumers = view.consumers()
    found = _found(view, flow, launch, takers, consumers, python)
    if not found:
        return 0
    launch.inputs += [u.read.inputs[0] for u in found]  # the assignment's may be behind the launch
    for update in found:
        before = [update.read] if update.kept else update.read.controls
        for source in (*before, *_waits(update.assign)):
            if source is not launch:
                launch.add_control(source)
    gone_reads = {u.read: u.read.controls for u in found if not u.kept}
    vanish(view, gone_reads | {u.assign: [launch] for u in found})
    gone = {u.at for u in found}
    attrs = launch.proto.attr
    types = [t for k, t in enumerate(attrs["Tin"].list.type) if k not in gone]
    attrs["Tin"].list.ClearField("type")
    attrs["Tin"].list.type.extend(types)
    attrs["num_variables"].i = len(found)
    attrs["updates"].list.i.extend(n for u in found for n in (u.at, u.output))
    launch.inputs = [ref for k, ref in enumerate(launch.inputs) if k not in gone]
    return len(found)


def _found(
    view: View,
    flow: Flow,
    launch: Node,
    takers: dict[VariableKey | None, list[Node]],
    consumers: dict[Node, list[Node]],
    python: bool,
) -> list[_UpdateInPlace]:
    """The variables of a launch that it can be given. python: the graph calls Python, which may update any of them."""
    device_args = len(launch.proto.attr["Tin"].list.type)
    cluster = parsed(launch.proto.attr["cluster"].s)
    found = []
    for output, (result, (made_by, _)) in enumerate(zip(cluster.results, cluster.outputs, strict=True)):
        if result.host or not 0 <= result.assigns < device_args or made_by < 0 or cluster.nodes[made_by].op in _MOVES:
            continue
        read = launch.inputs[result.assigns][0]
        assign = _assignment(read, takers)
        if assign is not None:
            kept = any(n is not launch and (read, 0) in n.inputs for n in consumers[read])
            update = _UpdateInPlace(result.assigns, output, read, assign, kept)
            alone = not kept and not python
            if _is_in_order(view, flow, launch, update) and (alone or _only_updates(cluster, update)):
                found.append(update)
    return _in_order(launch, found, consumers)


def _assignment(read: Node, takers: dict[VariableKey | None, list[Node]]) -> Node | None:
    """The one assignment of a variable that is read, if all others only read it and no session owns it."""
    key = handle_key(read.inputs[0]) if read.op == "ReadVariableOp" else None
    if key is None or key[0] == "VarHandleOp":
        return None
    writers = {n for n in takers[key] if n.op != "ReadVariableOp"}
    return writers.pop() if len(writers) == 1 else None


def _is_in_order(view: View, flow: Flow, launch: Node, update: _UpdateInPlace) -> bool:
    """Whether a variable is assigned what the launch makes, under one condition with the read and on one device, and
    neither read nor assignment is fetched."""
    read, assign = update.read, update.assign
    return (
        assign.op == "AssignVariableOp"
        and assign.inputs[1] == (launch, update.output)
        and flow.classes[read] == flow.classes[assign] == flow.classes[launch]
        and read.device == assign.device == launch.device
        and not {read.name, assign.name} & view.fetched
        # a variable without a value looks like one without elements
        and (shape := Shapes.variable(assign.inputs[0])) is not None
        and 0 not in shape
    )


def _only_updates(cluster: TensorFlowCluster, update: _UpdateInPlace) -> bool:
    """Whether only an op that updates a variable uses its value in a cluster. Other ops share the value that was read
    with nodes outside, and the variable may have changed since."""
    users = [n for n in cluster.nodes if (-1, update.at) in n.inputs]
    row = lookup(users[0].op) if len(users) == 1 else None
    return row is not None and bool(row.updates) and (-1, update.at) not in cluster.outputs


def _in_order(launch: Node, found: list[_UpdateInPlace], consumers: dict[Node, list[Node]]) -> list[_UpdateInPlace]:
    """The updates whose assignments wait for nothing behind the launch but other such assignments."""
    later = _later(launch, consumers)
    waits = {u.assign: later.intersection(_waits(u.assign)) for u in found}
    count = -1
    while count != len(found):
        count = len(found)
        assigns = {u.assign for u in found}
        found = [u for u in found if waits[u.assign] <= assigns]
    return found


def _waits(assign: Node) -> list[Node]:
    """The nodes that an assignment waits for by control, those included for which an Identity of its handle waits."""
    out, node = _behind_noops(assign), assign.inputs[0][0]
    while node.op == "Identity":  # as far as the frame of the assignment goes
        out += _behind_noops(node)
        node = node.inputs[0][0]
    return out


def _behind_noops(node: Node) -> list[Node]:
    """The nodes that a node waits for by control, those behind NoOps in the place of these."""
    return controls_past(node, lambda source: () if source.op == "NoOp" else None)


def _later(node: Node, consumers: dict[Node, list[Node]]) -> set[Node]:
    """All that comes after a node, in its iteration."""
    return set(reached([node], lambda n: consumers[n] if n.op != "NextIteration" else ())) - {node}
