"""Replaces each group of nodes by one `HpuLaunch` node.

What: a group is written as a cluster (`tensorflow/clusters/writer.py`), which is an attribute of the new node, because
functions that a plugin adds to a graph are thrown away. Uses of the group's nodes become uses of the `HpuLaunch` node.

Invariants: results and arguments of type int32 are in host memory, as everywhere on an accelerator in TensorFlow; so
are arguments whose values fix a shape, because they belong to a launch's signature, and predicates used only by control
flow. Small constants are copied into each cluster that uses them. The control inputs of the node are those of its
members and constants; control edges from a member come from the node. Its name is a digest of the cluster's content,
so the same computation has the same name in every process.

    arg ─ relu ─┬─ mul ─ retval                arg ─ HpuLaunch(relu, mul) ─ retval
     c ·········· mul                   ->      c ···┘
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from habana_tf import settings
from habana_tf.cluster.cluster import Arg
from habana_tf.ir.dtypes import DType, from_number
from habana_tf.resolver.placements import Program
from habana_tf.tensorflow.clusters.attributes import readable
from habana_tf.tensorflow.clusters.cluster import followed, parsed
from habana_tf.tensorflow.clusters.digest import digest
from habana_tf.tensorflow.clusters.writer import ClusterWriter
from habana_tf.tensorflow.facts.opdefs import variable_type_of
from habana_tf.tensorflow.graph.frames import Flow
from habana_tf.tensorflow.graph.ops import FORWARDING, argument_names, attr, output_names, output_types
from habana_tf.tensorflow.graph.partition import NodeGroup
from habana_tf.tensorflow.graph.variable_handles import handle_key
from habana_tf.tensorflow.graph.view import Node, Ref, View, reached, replaced
from habana_tf.tensorflow.lowering.row import Row
from habana_tf.tensorflow.lowering.table import LOOP, lookup


@dataclass(frozen=True)
class LaunchNode(Program):
    """What is known of an `HpuLaunch` node that was made: the program of that name, and the node's own."""

    node: str = field(kw_only=True)


class Unreadable(Exception):
    """A group does not make a cluster that can be read again; its nodes have to run one by one."""

    def __init__(self, nodes: list[Node], why: Exception) -> None:
        which = f"a cluster of {len(nodes)} nodes with {nodes[0]!r}"
        super().__init__(f"{which} cannot be read: {type(why).__name__}: {why}")
        self.nodes = nodes


def encapsulate(view: View, flow: Flow, groups: list[NodeGroup]) -> list[LaunchNode]:
    """Replaces every group; returns what is known of the nodes, in the order of the groups."""
    consumers = view.consumers()
    taken: Counter[str] = Counter()
    where: dict[Ref, Ref] = {}
    made: dict[Node, Node] = {}
    types: dict[Ref, DType] = {}
    out = [_Maker(view, flow, g, consumers, where, made, taken, types).make() for g in groups]
    for node in view.alive():
        if where and any(ref in where for ref in node.inputs):
            node.inputs = [replaced(where, ref) for ref in node.inputs]
        if made and any(c in made for c in node.controls):
            old = node.controls
            node.controls = list(dict.fromkeys(c for s in old if (c := made.get(s, s)) is not node))
    view.sweep(view.alive(), lambda node: node.op == "Const")  # that only clusters used
    return out


def _ops(op: str, proto: Any) -> list[str]:
    """The op of a node, or those in a loop."""
    if op != LOOP:
        return [op]
    return [each for n in parsed(proto.attr["body"].s).nodes if n.op != "Const" for each in _ops(n.op, n.proto)]


@dataclass
class _Maker:
    """Makes one `HpuLaunch` node. where: tensor of a member -> what stands for it; made: member -> its node.

    taken: how often a name was given; types: of the nodes' results.
    """

    view: View
    flow: Flow
    group: NodeGroup
    consumers: dict[Node, list[Node]]
    where: dict[Ref, Ref]
    made: dict[Node, Node]
    taken: Counter[str]
    types: dict[Ref, DType]

    def make(self) -> LaunchNode:
        members = set(self.group.nodes)
        body = [n for n in self.group.nodes if n.op != "NoOp" and n.op not in FORWARDING]
        outward = self._outward(members)
        results = list(dict.fromkeys(ref for _, ref in outward if ref[0] in members))
        inputs, constants = self._inputs(members, body)
        host = self._host_inputs(members, body, inputs)
        arguments = [r for r in inputs if r not in host] + [r for r in inputs if r in host]
        host_results = [r for r in results if self._type(r) is DType.I32 or self._host_output(r)
                        or self._only_decides(r, outward, members)]  # fmt: skip
        results = [r for r in results if r not in host_results] + host_results
        ops = Counter(op for n in body for op in _ops(n.op, n.proto))
        name, data = self._write(members, body, constants, arguments, host, results, set(host_results))
        self.taken[name] += 1
        node = self.view.add(name if self.taken[name] == 1 else f"{name}_{self.taken[name]}", "HpuLaunch",
                             self.group.device)  # fmt: skip
        device_args = [r for r in arguments if r not in host]
        self._attributes(node, name, data, device_args, arguments[len(device_args) :], results, host_results)
        node.inputs = list(arguments)
        waits = (c for n in (*self.group.nodes, *constants) for c in n.controls)
        fed = {n for n, _ in arguments}
        node.controls = list(dict.fromkeys(c for c in waits if c not in members and c not in fed))
        self.flow.classes[node] = self.group.cls
        at = {ref: (node, k) for k, ref in enumerate(results)}
        self.types.update({(node, k): self._type(ref) for k, ref in enumerate(results)})
        for ref, behind in outward:
            self.where[ref] = at.get(behind, behind)
        for member in self.group.nodes:
            self.made[member] = node
            self.view.remove(member)
        most_first = dict(sorted(ops.items(), key=lambda i: (-i[1], i[0])))
        return LaunchNode(name, most_first, len(arguments), len(results), node=node.name)

    def _through(self, ref: Ref, members: set[Node]) -> Ref:
        """The tensor behind Identity nodes that are members."""
        while ref[0] in members and ref[0].op in FORWARDING:
            ref = ref[0].inputs[0]
        return ref

    def _outward(self, members: set[Node]) -> list[tuple[Ref, Ref]]:
        """(tensor of a member used outside, the tensor it is), in topological order."""
        out: dict[Ref, Ref] = {}
        for node in self.group.nodes:
            used = {k for c in self.consumers[node] if c not in members for n, k in c.inputs if n is node}
            for k in sorted(used):
                out[node, k] = self._through((node, k), members)
        return list(out.items())

    def _inputs(self, members: set[Node], body: list[Node]) -> tuple[list[Ref], list[Node]]:
        """The tensors that come from outside, and the constants to take along, in order of first use."""
        inputs: dict[Ref, None] = {}
        constants: dict[Node, None] = {}
        for node in body:
            for at, ref in enumerate(node.inputs):
                ref = self._through(ref, members)
                node.inputs[at] = ref
                if ref[0] in members:
                    continue
                ref = replaced(self.where, ref)
                node.inputs[at] = ref
                if self._absorbs(ref[0]):
                    constants[ref[0]] = None
                else:
                    inputs[ref] = None
        return list(inputs), list(constants)

    def _absorbs(self, node: Node) -> bool:
        """Whether a node is a constant that the cluster takes along."""
        if node.op != "Const" or lookup("Const") is None:
            return False
        if (node.inputs or node.controls) and self.flow.classes[node] != self.group.cls:
            return False
        limit = settings.TF_MAX_CONST_SIZE_IN_CLUSTER.get()
        value = attr(node, "value")
        if from_number(output_types(node)[0]) is None or value.ByteSize() > limit:
            return False
        return readable(value.tensor)

    def _type(self, ref: Ref) -> DType:
        if ref in self.types:
            return self.types[ref]
        node, output = ref
        types = output_types(node)
        if node.virtual:
            types = self._variable_types(node) + types
        dtype = from_number(types[output])
        if dtype is None:
            raise ValueError(f"{node!r}: output {output} has type {types[output]}, which HPU has not")
        return dtype

    def _row(self, node: Node) -> Row:
        row = lookup(node.op)
        if row is None:
            raise ValueError(f"{node!r} is in a cluster but not in the op table")
        return row

    def _variable_types(self, node: Node) -> list[int]:
        """The types of the new values that an op gives before its outputs."""
        updates = self._row(node).updates
        return [variable_type_of(node.proto)] * len(updates) if updates else []

    def _host_output(self, ref: Ref) -> bool:
        node, output = ref
        row = self._row(node)
        output -= len(row.updates) if node.virtual else 0
        return bool(row.host_outputs) and output >= 0 and output_names(node)[output] in row.host_outputs

    def _only_decides(self, ref: Ref, outward: list[tuple[Ref, Ref]], members: set[Node]) -> bool:
        """Whether a result is a predicate and nothing else: control flow reads it in host memory."""
        if self._type(ref) is not DType.BOOL:
            return False
        for (node, output), behind in outward:
            if behind != ref:
                continue
            for consumer in self.consumers[node]:
                at = [k for k, source in enumerate(consumer.inputs) if source == (node, output)]
                decides = consumer.op == "LoopCond" or (consumer.op == "Switch" and at == [1])
                if consumer not in members and at and not decides:
                    return False
        return True

    def _host_inputs(self, members: set[Node], body: list[Node], inputs: list[Ref]) -> set[Ref]:
        """The inputs that must be in host memory: int32, host arguments, and all that a shape is computed from."""
        host = {ref for ref in inputs if self._type(ref) is DType.I32}
        shaping: list[Ref] = []
        for node in body:
            row = self._row(node)
            if not row.fixed and not row.host:
                continue
            for name, ref in zip(argument_names(node), node.inputs, strict=True):
                if name in row.fixed:
                    shaping.append(ref)
                elif name in row.host and ref[0] not in members and ref[0].op != "Const":
                    host.add(ref)

        def step(ref: Ref) -> Iterable[Ref]:
            node, output = ref
            return followed(node.op, node.proto, node.inputs, output) if node in members else ()

        needed = reached(shaping, step)
        return host | {ref for ref in inputs if ref in needed}

    def _write(
        self,
        members: set[Node],
        body: list[Node],
        constants: list[Node],
        arguments: list[Ref],
        host: set[Ref],
        results: list[Ref],
        host_results: set[Ref],
    ) -> tuple[str, bytes]:
        """The cluster's name and its serialized form."""
        writer = ClusterWriter("")
        text: dict[Ref, str] = {}
        values = {ref for ref in arguments if ref[0].op == "ReadVariableOp"}
        for node in body:
            if node.virtual:
                row = self._row(node)
                names = zip(argument_names(node), node.inputs, strict=True)
                values |= {ref for name, ref in names if name in row.variables or name in row.updates}
        for ref in arguments:
            shown = f"{ref[0].name}:{ref[1]}" if ref[1] else ref[0].name
            text[ref] = writer.arg(Arg(self._type(ref), ref in host, shown, ref in values))
        for node in (*constants, *body):
            made = writer.node(node.proto, [text[ref] for ref in node.inputs])
            count = len(output_types(node)) + (len(self._row(node).updates) if node.virtual else 0)
            for k in range(count):
                text[node, k] = f"{made}:{k}" if k else made
        read = {handle_key(ref[0].inputs[0]): k for k, ref in enumerate(arguments) if ref[0].op == "ReadVariableOp"}
        for ref in results:
            assigns = [c for c in self.consumers.get(ref[0], ()) if c.op == "AssignVariableOp" and ref in c.inputs]
            keys = [key for c in assigns if (key := handle_key(c.inputs[0])) is not None and key in read]
            new = Arg(
                self._type(ref), ref in host_results, ref[0].proto.name, bool(assigns), read[keys[0]] if keys else -1
            )
            writer.result(text[ref], new)
        data = writer.bytes()
        name = f"cluster_{digest(data)[:12]}"
        data = writer.named(name)
        try:
            parsed(data)
        except Exception as why:
            raise Unreadable(self.group.nodes, why) from why
        return name, data

    def _attributes(
        self, node: Node, name: str, data: bytes, args: list[Ref], host_args: list[Ref], results: list[Ref],
        host_results: list[Ref],
    ) -> None:  # fmt: skip
        attrs = node.proto.attr
        kept = results[: len(results) - len(host_results)]
        for key, refs in (("Tin", args), ("Thost", host_args), ("Tout", kept), ("Thost_out", host_results)):
            attrs[key].list.type.extend(self._type(r).number for r in refs)
        attrs["cluster"].s = data
        attrs["cluster_name"].s = name.encode()
