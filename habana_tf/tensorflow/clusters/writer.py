"""Writes a cluster of TensorFlow's ops as a serialized GraphDef, its form in graphs, recipes and the recipe cache.

It has `_Arg` nodes for the cluster's inputs, the ops under canonical names in topological order, and `_Retval` nodes
for its outputs. Original names are kept for people in the attribute `_name`, which is no part of a key. An op that
takes a resource has the variable's value as input.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from habana_tf.cluster.cluster import Arg
from habana_tf.ir.dtypes import DType, from_number
from habana_tf.tensorflow.facts import opdefs
from habana_tf.tensorflow.lowering.table import lookup


class ClusterWriter:
    """Builds the serialized form of a cluster, node by node.

    Inputs are added first (device arguments, then host ones), then nodes in topological order, then outputs.
    Every method returns the reference string to use as an input of later nodes.
    """

    def __init__(self, name: str) -> None:
        from tensorflow.core.framework import graph_pb2

        self._graph = graph_pb2.GraphDef()
        note = self._graph.node.add(name="cluster", op="NoOp")
        note.attr["_cluster"].s = name.encode()
        self._counts = {"_Arg": 0, "_Retval": 0, "n": 0}

    def arg(self, arg: Arg) -> str:
        return self._io("_Arg", "a", arg, None)

    def node(self, proto: Any, inputs: Iterable[str]) -> str:
        """Adds a copy of a NodeDef with other inputs; private and location attributes are left out."""
        n = self._graph.node.add(name=f"n{self._counts['n']}", op=proto.op)
        self._counts["n"] += 1
        n.input.extend(inputs)
        for key, value in proto.attr.items():
            if not key.startswith("_"):
                n.attr[key].CopyFrom(value)
        n.attr["_name"].s = proto.attr["_name"].s if "_name" in proto.attr else proto.name.encode()
        return n.name

    def result(self, source: str, arg: Arg) -> str:
        return self._io("_Retval", "r", arg, source)

    def _io(self, op: str, prefix: str, arg: Arg, source: str | None) -> str:
        index = self._counts[op]
        self._counts[op] += 1
        n = self._graph.node.add(name=f"{prefix}{index}", op=op)
        if source is not None:
            n.input.append(source)
        n.attr["T"].type = arg.dtype.number
        n.attr["index"].i = index
        n.attr["_host"].b = arg.host
        n.attr["_name"].s = arg.name.encode()
        n.attr["_variable"].b = arg.variable
        n.attr["_assigns"].i = arg.assigns
        return n.name

    def named(self, name: str) -> bytes:
        """The serialized form under another name, for one that is made from the content."""
        self._graph.node[0].attr["_cluster"].s = name.encode()
        return self.bytes()

    def bytes(self) -> bytes:
        return self._graph.SerializeToString(deterministic=True)


def of_node(nodedef: bytes) -> bytes:
    """The cluster of one for an eager op or an op left outside every cluster.

    Device arguments come first, then host ones, in the order of the op's inputs; resource arguments become the
    variable's value. Raises KeyError for an op without a row.
    """
    from tensorflow.core.framework import node_def_pb2

    node = node_def_pb2.NodeDef.FromString(nodedef)
    row = lookup(node.op)
    if row is None:
        raise KeyError(f"{node.op} has no row in the op table")
    facts = opdefs.known(node.op)
    slices = facts.input_slices(node)
    entries: list[Arg] = []
    for name, tf_type in zip(facts.input_names(node), facts.input_types(node), strict=True):
        resource = name in (*row.variables, *row.updates)
        if resource:
            tf_type = opdefs.variable_type_of(node)
        dtype = from_number(tf_type)
        if dtype is None:
            raise KeyError(f"{node.op}: input {name!r} has type {tf_type}, which HPU has not")
        host = not resource and (name in (*row.fixed, *row.host) or dtype is DType.I32)
        entries.append(Arg(dtype, host, name, resource))
    writer = ClusterWriter(node.op)
    order = sorted(range(len(entries)), key=lambda at: entries[at].host)
    refs = {at: writer.arg(entries[at]) for at in order}
    del node.input[:]
    me = writer.node(node, [refs[at] for at in range(len(entries))])
    positions = {name: slices[name].start for name in row.updates}
    outputs: list[Arg] = [Arg(entries[at].dtype, False, name, True, order.index(at)) for name, at in positions.items()]
    for name, tf_type in zip(facts.output_names(node), facts.output_types(node), strict=True):
        dtype = from_number(tf_type)
        if dtype is None:
            raise KeyError(f"{node.op}: output {name!r} has type {tf_type}, which HPU has not")
        outputs.append(Arg(dtype, dtype is DType.I32 or name in row.host_outputs, name))
    for k, out in enumerate(outputs):
        writer.result(f"{me}:{k}" if k else me, out)
    return writer.bytes()
