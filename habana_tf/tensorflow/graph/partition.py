"""Groups the nodes that HPU takes (candidates) into clusters, each of which becomes one `HpuLaunch`.

What: as few groups as the graph allows, connected or not, since one launch costs less than two. A group holds nodes of
one class (`frames.py`) and one device.

How: a launch must not wait for itself, so no path may leave a group and come back. Every node gets a level: the number
of times a path to it can have left a group, or passed a size that data decide (`data_dependent_sizes.py`). Candidates
of one class and level are a group; a path that leaves it arrives at a higher level. The number of levels is also the
least number of groups, because a path that alternates k times needs k of them. Levels are counted from the end of the
graph, so a group that exists only because the host needs a value early holds no more than that value depends on. Linear
in the size of the graph.

    conv ─ relu ─ PyFunc ─ mul             conv ─ bias ─┐
    conv(0) relu(0)        mul(1)          shape ───────┴ reshape      all one group, `sum(other)` too

Then nodes that are not worth a launch are taken out, and the levels are counted again, which may join other groups:
connected parts of nothing but views and arithmetic on int32; groups of a few small integers or predicates that come
from the host and go to it (moved to the CPU); Identity and NoOp nodes at the boundary of a group.

Invariants: deterministic; nodes are in topological order within a group, and groups in an order in which they can run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from habana_tf.tensorflow.graph.connected_feeds import connected
from habana_tf.tensorflow.graph.data_dependent_sizes import decided_by_data
from habana_tf.tensorflow.graph.frames import ROOT, Class, Flow
from habana_tf.tensorflow.graph.ops import (
    BOOL,
    CONTROL_FLOW,
    INT32,
    STRUCTURAL,
    device_type,
    has_kernel,
    input_types,
    on_cpu,
    output_types,
)
from habana_tf.tensorflow.graph.placement import Placement
from habana_tf.tensorflow.graph.products import is_product
from habana_tf.tensorflow.graph.reasons import Reason
from habana_tf.tensorflow.graph.view import Node, View

GroupKey = tuple[str, Class]

_INT64 = 9
_LIGHT = STRUCTURAL | frozenset({
    "Const", "Shape", "ShapeN", "Size", "Rank", "Reshape", "ExpandDims", "Squeeze", "ZerosLike", "OnesLike", "Fill",
})  # fmt: skip
"""A group of nothing but these is not worth a launch."""
SMALL_GROUP = 16
"""A group for the host has at most so many ops (constants and Identity not counted)."""


@dataclass
class NodeGroup:
    """Nodes to be launched together, in topological order."""

    device: str
    cls: Class
    nodes: list[Node] = field(default_factory=list)


def grow(view: View, flow: Flow, placement: Placement) -> list[NodeGroup]:
    """The groups worth a launch. Moves small work for the host to the CPU."""
    with connected(view):
        order = view.topological()
        consumers = view.consumers()
        exits = view.exits(consumers)
    cuts = decided_by_data(order)
    members: dict[Node, GroupKey] = {}
    for node in order:
        if placement.takes(node) or _junction(node, flow, view):
            members[node] = (node.device, flow.classes[node])
    while True:
        levels = _levels(order, consumers, exits, members, cuts)
        groups: dict[tuple[int, GroupKey], NodeGroup] = {}
        for node in order:
            if node in members:
                key = (levels[node], members[node])
                groups.setdefault(key, NodeGroup(*members[node])).nodes.append(node)
        out: list[Node] = []
        for group in groups.values():
            out.extend(_leave(group, consumers, placement))
        if not out:
            return [groups[k] for k in sorted(groups, key=lambda k: k[0])]
        for node in out:
            del members[node]


def _junction(node: Node, flow: Flow, view: View) -> bool:
    """A NoOp that only joins control edges may vanish in a group that has both its ends."""
    return node.op == "NoOp" and flow.classes[node] == ROOT and node.name not in view.preserved


def _levels(
    order: list[Node],
    consumers: dict[Node, list[Node]],
    exits: dict[Node, list[Node]],
    members: dict[Node, GroupKey],
    cuts: set[tuple[Node, Node]],
) -> dict[Node, int]:
    """The level of every node, counted from the end: 0 is last, and -1, -2, ... are before it.

    exits: for an Enter or a NextIteration, the Exits of its loop: the path from before a loop to behind it. cuts:
    (node, consumer) that must not share a group (see `data_dependent_sizes`).
    """
    levels: dict[Node, int] = {}
    for node in reversed(order):
        key = members.get(node)
        level = 0
        for consumer in (*consumers[node], *exits.get(node, ())):
            if consumer not in levels:  # a loop's back edge
                continue
            theirs = members.get(consumer)
            step = 1 if theirs is not None and (theirs != key or (node, consumer) in cuts) else 0
            level = min(level, levels[consumer] - step)
        levels[node] = level
    return levels


def _leave(group: NodeGroup, consumers: dict[Node, list[Node]], placement: Placement) -> list[Node]:
    """The nodes of a group that shall not be in one."""
    inside = set(group.nodes)
    if not any(n.virtual for n in group.nodes) and _for_the_host(group, inside, consumers):
        for node in group.nodes:
            node.device = on_cpu(node.device)
            _refuse(node, placement, Reason.FOR_THE_HOST)
            placement.moved += 1
            for source, _ in node.inputs:
                if source.op == "Const" and all(c in inside for c in consumers[source]):
                    source.device = node.device
        return group.nodes
    out = [
        n for part in _parts([n for n in group.nodes if n.op != "NoOp"]) if all(_cheap(m) for m in part) for n in part
    ]
    for node in out:
        _refuse(node, placement, Reason.TRIVIAL)
    if out:
        return out
    for node in group.nodes:
        if node.op not in STRUCTURAL:
            continue
        outward = any(c not in inside for c in consumers[node])
        inward = any(c in inside for c in consumers[node])
        if node.op == "NoOp":
            rim = not inward or not any(c in inside for c in node.controls)
        else:  # a copy without users inside would only make the launch wait for the control inputs of the copy
            foreign = any(c not in inside for c in node.controls)
            made_here = node.inputs[0][0] in inside
            rim = (not inward and (foreign or not made_here)) or (outward and foreign)
        if rim:
            _refuse(node, placement, Reason.TRIVIAL)
            out.append(node)
    return out


def _cheap(node: Node) -> bool:
    """Whether a launch gains nothing by a node: it moves no data, or works on int32 in host memory (a loop's counter,
    say) and TensorFlow brings a kernel for that."""
    if node.virtual:
        return False
    if node.op in _LIGHT:
        return True
    types = {*input_types(node), *output_types(node)}
    return INT32 in types and types <= {INT32, BOOL} and has_kernel(node, "DEFAULT")


def _parts(nodes: list[Node]) -> list[list[Node]]:
    """The components of nodes that are connected by data, in order."""
    parent = {n: n for n in nodes}

    def root(node: Node) -> Node:
        while parent[node] is not node:
            parent[node] = node = parent[parent[node]]
        return node

    for node in nodes:
        for source, _ in node.inputs:
            if source in parent:
                parent[root(source)] = root(node)
    parts: dict[Node, list[Node]] = {}
    for node in nodes:
        parts.setdefault(root(node), []).append(node)
    return list(parts.values())


def _refuse(node: Node, placement: Placement, reason: Reason) -> None:
    if placement.takes(node):
        placement.refuse(node, reason)


def _for_the_host(group: NodeGroup, inside: set[Node], consumers: dict[Node, list[Node]]) -> bool:
    """Whether a group computes a few integers or predicates from values on the host, for uses on the host only.

    Loops are left as they are: one that spans two devices pays for it in every iteration.
    """
    if group.cls[0] or sum(1 for n in group.nodes if n.op not in _LIGHT) > SMALL_GROUP:
        return False
    used = False
    for node in group.nodes:
        if is_product(node.op) or (node.op != "NoOp" and not has_kernel(node, "CPU")):
            return False
        if any(n not in inside and n.op != "Const" and device_type(n.device) == "HPU" for n, _ in node.inputs):
            return False
        for consumer in consumers[node]:
            if consumer in inside:
                continue
            if consumer.op not in CONTROL_FLOW and device_type(consumer.device) == "HPU":
                return False
            used = used or any(n is node for n, _ in consumer.inputs)
            types = output_types(node)
            if any(n is node and types[k] not in (INT32, _INT64, BOOL) for n, k in consumer.inputs):
                return False
    return used
