"""A mutable graph of plain Python objects, the data of every pass: nodes with names, devices and edges as references.

A node's NodeDef is read for attributes only, and the GraphDef is written once, at the end. Why: a training step of
ResNet50 has some 9,000 nodes, and reading a protobuf field costs a microsecond; passes that looked up names in NodeDefs
would take seconds.

Invariants: `inputs` are the data inputs in order, `controls` the control inputs, each once, in order. A node that is
not `alive` is no longer in the graph. Nodes are sorted by name, since their order in the GraphDef differs between
processes. `write` finds changed nodes by comparing their fields.

    "b"  input: ["a:1", "x", "^c"]      Node b: inputs [(a, 1), (x, 0)], controls [c]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

Ref = tuple["Node", int]
"""One tensor: the node that makes it, and which of its outputs."""

Frame = tuple[str, ...]
"""The names of the loops around a node, the outermost first."""

T = TypeVar("T")

_NUMBER = re.compile(r"(\d+)")


def natural(name: str) -> list[str | int]:
    """A sort key that puts dense_9 before dense_10: the order of nodes must not depend on where a count began."""
    return [int(part) if part.isdigit() else part for part in _NUMBER.split(name)]


class CycleError(ValueError):
    """A graph that cannot be sorted; the message names a node on or behind the cycle."""


class Node:
    """One node. `proto` is the NodeDef it was read from or that gives its attributes."""

    __slots__ = ("_read", "alive", "controls", "device", "inputs", "name", "op", "proto", "virtual")

    def __init__(self, name: str, op: str, device: str, proto: Any) -> None:
        self.name = name
        self.op = op
        self.device = device
        self.proto = proto
        self.inputs: list[Ref] = []
        self.controls: list[Node] = []
        self.alive = True
        self.virtual = False
        """It exists inside a cluster only: its resource inputs are values (see `variables.py`)."""
        self._read: tuple[str, str, str, list[Ref], list[Node]] | None = None

    def __repr__(self) -> str:
        return f"{self.op} {self.name!r}"

    @property
    def original_name(self) -> str | None:
        """Its name in the graph that was read; None if it was made since, or made into another op."""
        return self._read[0] if self._read is not None and self._read[1] == self.op else None

    def mark_read(self) -> None:
        """Remembers the present state as the one `proto` holds."""
        self._read = (self.name, self.op, self.device, list(self.inputs), list(self.controls))

    def changed(self) -> bool:
        return self._read != (self.name, self.op, self.device, self.inputs, self.controls)

    def become(self, op: str, **types: int) -> None:
        """Makes this another op, with these type attributes and none of its own; inputs stay."""
        from tensorflow.core.framework import node_def_pb2

        self.op, self.proto = op, node_def_pb2.NodeDef(name=self.name, op=op, device=self.device)
        for name, tf_type in types.items():
            self.proto.attr[name].type = tf_type

    def become_noop(self) -> None:
        """Makes this a NoOp, which keeps its control inputs."""
        self.become("NoOp")
        self.inputs = []

    def become_constant(self, value: Any) -> None:
        """Makes this a Const of a NumPy array or scalar, without inputs."""
        from tensorflow.python.framework import tensor_util

        proto = tensor_util.make_tensor_proto(value)
        self.become("Const", dtype=proto.dtype)
        self.proto.attr["value"].tensor.CopyFrom(proto)
        self.inputs, self.controls = [], []

    def add_control(self, node: Node) -> None:
        if node is not self and node not in self.controls:
            self.controls.append(node)

    def sources(self) -> Iterator[Node]:
        """The nodes this one waits for, by data, then by control."""
        for source, _ in self.inputs:
            yield source
        yield from self.controls

    def text_inputs(self) -> list[str]:
        """The inputs as a NodeDef has them."""
        out = [f"{n.name}:{k}" if k else n.name for n, k in self.inputs]
        out.extend("^" + n.name for n in self.controls)
        return out


class View:
    """A graph being rewritten. `preserved` names nodes that must keep name and outputs; `fetched` are read."""

    def __init__(self, graph: Any, preserved: frozenset[str] = frozenset(), fetched: frozenset[str] = frozenset()):
        self.graph = graph
        self.preserved = preserved
        self.fetched = fetched
        self.by_name: dict[str, Node] = {}
        self.nodes: list[Node] = []
        texts: list[list[str]] = []
        for proto in sorted(graph.node, key=lambda n: natural(n.name)):
            node = Node(proto.name, proto.op, proto.device, proto)
            self.nodes.append(node)
            self.by_name[node.name] = node
            texts.append(list(proto.input))
        for node, text in zip(self.nodes, texts, strict=True):
            for name in text:
                if name[0] == "^":
                    node.controls.append(self.by_name[name[1:]])
                else:
                    source, _, output = name.partition(":")
                    node.inputs.append((self.by_name[source], int(output) if output else 0))
            node.mark_read()

    @classmethod
    def parse(cls, data: bytes, preserved: frozenset[str] = frozenset(), fetched: frozenset[str] = frozenset()) -> View:
        from tensorflow.core.framework import graph_pb2

        return cls(graph_pb2.GraphDef.FromString(data), preserved, fetched)

    def unique(self, name: str) -> str:
        """`name`, with a number behind it if the graph has it already."""
        if name not in self.by_name:
            return name
        k = 1
        while f"{name}_{k}" in self.by_name:
            k += 1
        return f"{name}_{k}"

    def add(self, name: str, op: str, device: str, inputs: Sequence[Ref] = (), proto: Any = None, **types: int) -> Node:
        """A new node with these type attributes; `proto` gives its others (it is not copied)."""
        if proto is None:
            from tensorflow.core.framework import node_def_pb2

            proto = node_def_pb2.NodeDef(name=name, op=op, device=device)
        node = Node(self.unique(name), op, device, proto)
        node.inputs = list(inputs)
        for attr, tf_type in types.items():
            proto.attr[attr].type = tf_type
        self.by_name[node.name] = node
        self.nodes.append(node)
        return node

    def constant(self, name: str, value: Any, device: str) -> Node:
        """A new Const; value: a NumPy array or scalar."""
        node = self.add(name, "Const", device)
        node.become_constant(value)
        return node

    def front(self, node: Node, tf_type: int) -> Node:
        """Gives a node's name to a new Identity behind it; other uses of the node stay."""
        name = node.name
        del self.by_name[name]
        node.name = self.unique(f"{name}/compute")
        self.by_name[node.name] = node
        return self.add(name, "Identity", node.device, [(node, 0)], T=tf_type)

    def remove(self, node: Node) -> None:
        node.alive = False
        self.by_name.pop(node.name, None)

    def sweep(self, nodes: Iterable[Node], idle: Callable[[Node], bool]) -> None:
        """Removes those of these nodes that are `idle` and that nothing uses, then what only they used and is idle too.

        Preserved nodes stay.
        """
        consumers = self.consumers()
        stack = list(nodes)
        while stack:
            node = stack.pop()
            used = any(c.alive for c in consumers[node]) or node.name in self.preserved
            if node.alive and not used and idle(node):
                self.remove(node)
                stack.extend(node.sources())

    def alive(self) -> list[Node]:
        return [n for n in self.nodes if n.alive]

    def consumers(self) -> dict[Node, list[Node]]:
        """For every node, those that take data or control from it (once per edge), in graph order."""
        out: dict[Node, list[Node]] = {n: [] for n in self.nodes if n.alive}
        for node in self.nodes:
            if node.alive:
                for source in node.sources():
                    out[source].append(node)
        return out

    def exits(self, consumers: dict[Node, list[Node]]) -> dict[Node, list[Node]]:
        """For every Enter and every NextIteration, the Exits of its loop.

        A loop is begun with all it is given, and an Exit comes after every iteration. What was given may reach it over
        a back edge only, or not at all: a variable that the body sets without reading it. Passes that follow paths
        forward follow these pairs instead of back edges.
        """
        ends: dict[Frame, list[Node]] = {}
        parts: list[tuple[Node, Frame]] = []
        for node, frame in _frames(consumers).items():
            if node.op == "Exit":
                ends.setdefault(frame, []).append(node)
            elif node.op in ("Enter", "NextIteration"):
                parts.append((node, frame))
        return {node: ends.get(frame, []) for node, frame in parts}

    def topological(self) -> list[Node]:
        """All nodes in an order in which sources come first; a loop's back edge (NextIteration) does not count.

        The Exits of a loop come after all it does. The order depends on the graph alone. Raises CycleError if the
        graph has another cycle.
        """
        consumers = self.consumers()
        exits = self.exits(consumers)
        waiting: dict[Node, int] = dict.fromkeys(consumers, 0)
        ready: list[Node] = []
        for later in exits.values():
            for node in later:
                waiting[node] += 1
        for node in consumers:
            count = waiting[node] + len(node.inputs) + len(node.controls)
            if node.op == "Merge":
                count -= sum(1 for n, _ in node.inputs if n.op == "NextIteration")
            waiting[node] = count
            if not count:
                ready.append(node)
        for node in ready:  # which grows meanwhile
            later = [c for c in consumers[node] if node.op != "NextIteration" or c.op != "Merge"]
            for consumer in (*later, *exits.get(node, ())):
                waiting[consumer] -= 1
                if not waiting[consumer]:
                    ready.append(consumer)
        if len(ready) != len(waiting):
            left = next(n for n, count in waiting.items() if count)
            raise CycleError(f"the graph has a cycle through {left!r}")
        return ready

    def write(self) -> bytes:
        """The graph as a serialized GraphDef; versions and library as they came."""
        from tensorflow.core.framework import graph_pb2

        out = graph_pb2.GraphDef()
        out.versions.CopyFrom(self.graph.versions)
        if self.graph.HasField("library"):
            out.library.CopyFrom(self.graph.library)
        nodes = self.alive()
        out.node.extend(n.proto for n in nodes)
        for node, proto in zip(nodes, out.node, strict=True):
            if node._read is None or node.changed():
                proto.name, proto.op, proto.device = node.name, node.op, node.device
                del proto.input[:]
                proto.input.extend(node.text_inputs())
        data: bytes = out.SerializeToString()
        return data


def reached(start: Iterable[T], step: Callable[[T], Iterable[T]]) -> dict[T, None]:
    """What steps lead to from `start`, that included."""
    found = dict.fromkeys(start)
    stack = list(found)
    while stack:
        for each in step(stack.pop()):
            if each not in found:
                found[each] = None
                stack.append(each)
    return found


def controls_past(node: Node, past: Callable[[Node], Iterable[Node] | None]) -> list[Node]:
    """The control inputs of a node, with some nodes among them replaced by their own control inputs.

    past: for a node to be replaced, further nodes whose control inputs take its place; None for any other node.
    """
    out: dict[Node, None] = {}
    seen: set[Node] = set()
    stack = [node]
    while stack:
        for source in stack.pop().controls:
            beside = past(source)
            if beside is None:
                out[source] = None
            elif source not in seen:
                seen.add(source)
                stack.extend((source, *beside))
    return list(out)


def vanish(view: View, instead: dict[Node, list[Node]]) -> None:
    """Removes nodes without data outputs; control edges from one become control edges from other nodes."""

    def others(sources: list[Node]) -> Iterator[Node]:
        for source in sources:
            if source in instead:
                yield from others(instead[source])
            else:
                yield source

    for node in view.alive():
        controls = instead.get(node, node.controls)
        if not instead.keys().isdisjoint(node.controls) or node in instead:
            node.controls = [c for c in dict.fromkeys(others(controls)) if c is not node]
    for node in instead:
        if node.name in view.preserved:
            node.become_noop()
        else:
            view.remove(node)


def behind(ref: Ref, ops: Collection[str]) -> Ref:
    """The tensor behind nodes that pass on their first input."""
    while ref[0].op in ops:
        ref = ref[0].inputs[0]
    return ref


def replaced(instead: Mapping[Ref, Ref], ref: Ref) -> Ref:
    """What stands for a tensor after replacements, each of which may be replaced in turn."""
    while ref in instead:
        ref = instead[ref]
    return ref


def _frames(consumers: dict[Node, list[Node]]) -> dict[Node, Frame]:
    """The frame of every node in a loop, its Enters and Exits among them, in graph order.

    What an Enter reaches before an Exit is in its loop. Nothing else tells: no Switch need be in the way of a loop
    variable, and the condition may be one that nothing but the LoopCond reads.
    """
    names = {n: n.proto.attr["frame_name"].s.decode() for n in consumers if n.op == "Enter"}
    if not names:
        return {}
    found: dict[Node, Frame] = {n: (name,) for n, name in names.items()}
    stack = list(found)
    while stack:
        node = stack.pop()
        frame = found[node][:-1] if node.op == "Exit" else found[node]
        for consumer in consumers[node]:
            inner = (*frame, names[consumer]) if consumer in names else frame
            if len(inner) > len(found.get(consumer, ())):  # an inner loop is met without the loops around it first
                found[consumer] = inner
                stack.append(consumer)
    return {n: found[n] for n in consumers if n in found}
