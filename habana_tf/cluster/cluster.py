"""A cluster: the set of HPU ops that one launch runs, and the form in which it travels.

In a graph, in the recipe cache and to the compiler a cluster is a serialized GraphDef: `_Arg` nodes for its
inputs, the ops under canonical names in topological order, `_Retval` nodes for its outputs. Original names are
kept for people in the attribute `_name`, which is no part of the key.

Variables are dataflow: an op that takes a resource is kept with the variable's *value* as input, and gives the
new values of the variables it updates as its first outputs (see `lowering.table.Row`).
"""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from habana_tf.cluster.loop_form import Form
from habana_tf.ir.dtypes import DType, from_tf
from habana_tf.lowering.row import CUSTOM
from habana_tf.lowering.table import LOOP, lookup
from habana_tf.tensorflow_facts import opdefs

T = TypeVar("T")
Counts = Callable[[Sequence[Any]], int]
Ref = tuple[int, int]
"""(node index, output index); node index -1 is the cluster's input number `output index`."""

SHAPE_ONLY = frozenset({"Shape", "ShapeN", "Size", "Rank"})
"""Ops whose result follows from the shapes of their inputs."""


@dataclass(frozen=True)
class Arg:
    """An input or output of a cluster. variable: it is the value of a variable, present or new.

    assigns: for an output, the cluster's input that is the present value of the variable that gets it; -1 for none.
    """

    dtype: DType
    host: bool
    name: str = ""
    variable: bool = False
    assigns: int = -1


@dataclass
class ClusterNode:
    """One op of a cluster: attrs are plain Python values (see `plain`), arg_slices maps OpDef argument names."""

    index: int
    op: str
    name: str
    inputs: tuple[Ref, ...]
    attrs: dict[str, Any]
    arg_slices: dict[str, slice]
    proto: Any


@dataclass
class Cluster:
    """inputs: device arguments first, then host ones. states: indices of the nodes with a random state."""

    name: str
    inputs: list[Arg]
    nodes: list[ClusterNode]
    outputs: list[Ref]
    results: list[Arg]
    states: list[int] = field(default_factory=list)

    @functools.cached_property
    def has_bf16(self) -> bool:
        """Whether any tensor in it is bf16: an input, or by an op's attributes a result."""
        if any(a.dtype is DType.BF16 for a in self.inputs):
            return True
        attrs = (value for node in self.nodes for value in node.attrs.values())
        return any(DType.BF16 in value if isinstance(value, list) else value is DType.BF16 for value in attrs)

    def fixed_inputs(self) -> list[int]:
        """The inputs whose values fix a shape somewhere in the cluster."""
        stack: list[Ref] = []
        for node in self.nodes:
            row = lookup(node.op)
            for name in row.fixed if row else ():
                stack.extend(node.inputs[node.arg_slices[name]])
        return self._followed(stack)

    @functools.cached_property
    def counted(self) -> list[tuple[tuple[int, ...], Counts]]:
        """(inputs, what counts them) for the fixed inputs whose values decide one number and nothing else."""
        found: dict[tuple[int, ...], Counts] = {}
        stack: list[Ref] = []
        for node in self.nodes:
            row = lookup(node.op)
            for name in row.fixed if row else ():
                refs = node.inputs[node.arg_slices[name]]
                inputs = tuple(k for index, k in refs if index < 0)
                counts = row.counts if row else None
                if counts is not None and len(inputs) == len(refs) and found.setdefault(inputs, counts) is counts:
                    continue
                stack.extend(refs)
        often = Counter(k for inputs in found for k in set(inputs))
        others = {*self._followed(stack), *(k for k, n in often.items() if n > 1)}
        return [(inputs, counts) for inputs, counts in found.items() if inputs and not others & set(inputs)]

    def _followed(self, stack: list[Ref]) -> list[int]:
        """The inputs from whose values those of these follow."""
        seen: set[Ref] = set()
        while stack:
            ref = stack.pop()
            index, output = ref
            if ref not in seen:
                seen.add(ref)
                if index >= 0:
                    node = self.nodes[index]
                    stack.extend(followed(node.op, node.proto, node.inputs, output))
        return sorted(output for index, output in seen if index < 0)

    def seeds(self) -> list[tuple[int, int]]:
        """(seed, seed2) of each random state."""
        return [(self.nodes[i].attrs.get("seed", 0), self.nodes[i].attrs.get("seed2", 0)) for i in self.states]


def followed(op: str, proto: Any, inputs: Sequence[T], output: int) -> Sequence[T]:
    """Those of a node's inputs from whose values that of an output follows."""
    if op in SHAPE_ONLY:
        return ()
    if op == LOOP:
        return [inputs[at] for at in loop_origins(proto)[output][0]]
    return inputs


def loop_origins(proto: Any) -> list[tuple[set[int], set[int]]]:
    """`Form.origins` of an `HpuLoop`."""
    return _origins(proto.attr["form"].s.decode(), proto.attr["body"].s)


@functools.lru_cache(maxsize=256)
def _origins(form: str, data: bytes) -> list[tuple[set[int], set[int]]]:
    body = parsed(data)
    return Form.parse(form).origins([n.inputs for n in body.nodes], body.outputs)


def plain(value: Any) -> Any:
    """An AttrValue as a Python value: types become DType (or TensorFlow's number when HPU has no such type)."""
    kind = value.WhichOneof("value")
    if kind == "type":
        return from_tf(value.type) or value.type
    if kind == "s":
        return value.s.decode("utf-8", "surrogateescape")
    if kind == "shape":
        return None if value.shape.unknown_rank else tuple(d.size for d in value.shape.dim)
    if kind == "tensor":
        return _array(value.tensor)
    if kind == "list":
        items = value.list
        for field_name in ("i", "f", "b", "s", "type"):
            values = list(getattr(items, field_name))
            if values:
                if field_name == "s":
                    return [v.decode("utf-8", "surrogateescape") for v in values]
                return [from_tf(v) or v for v in values] if field_name == "type" else values
        return []
    if kind in ("i", "f", "b"):
        return getattr(value, kind)
    return None


def _array(proto: Any) -> Any:
    """The NumPy array in a TensorProto, as TensorFlow's kernels read one: one without elements may hold a value, and
    values beyond the last element do not count."""
    import numpy as np
    from tensorflow.python.framework import dtypes, tensor_util

    shape = tuple(d.size for d in proto.tensor_shape.dim)
    if 0 in shape:
        return np.zeros(shape, dtypes.as_dtype(proto.dtype).as_numpy_dtype)
    return tensor_util.MakeNdarray(proto)


def readable(proto: Any) -> bool:
    """Whether the TensorProto of a constant can be in a cluster."""
    try:
        _array(proto)
    except (TypeError, ValueError):
        return False
    return True


def parse(data: bytes) -> Cluster:
    """The cluster in a serialized GraphDef as this module's writers make it."""
    from tensorflow.core.framework import graph_pb2

    graph = graph_pb2.GraphDef.FromString(data)
    where: dict[str, int] = {}
    inputs: dict[int, Arg] = {}
    results: dict[int, tuple[Ref, Arg]] = {}
    nodes: list[ClusterNode] = []

    def ref(text: str) -> Ref:
        name, _, output = text.partition(":")
        index = where[name]
        return (index, int(output or 0)) if index >= 0 else (-1, -1 - index)

    name = "cluster"
    for n in graph.node:
        if n.op == "_Arg":
            where[n.name] = -1 - n.attr["index"].i
            inputs[n.attr["index"].i] = _arg(n)
        elif n.op == "_Retval":
            results[n.attr["index"].i] = (ref(n.input[0]), _arg(n))
        elif n.op == "NoOp":
            name = n.attr["_cluster"].s.decode()
        else:
            where[n.name] = len(nodes)
            attrs = {k: plain(v) for k, v in n.attr.items() if not k.startswith("_")}
            slices = opdefs.known(n.op).input_slices(n)
            shown = n.attr["_name"].s.decode() if "_name" in n.attr else n.name
            nodes.append(ClusterNode(len(nodes), n.op, shown, tuple(map(ref, n.input)), attrs, slices, n))
    states = [n.index for n in nodes if (row := lookup(n.op)) is not None and row.stateful_random]
    order = sorted(results)
    return Cluster(
        name, [inputs[i] for i in sorted(inputs)], nodes, [results[i][0] for i in order],
        [results[i][1] for i in order], states,
    )  # fmt: skip


@functools.lru_cache(maxsize=256)
def parsed(data: bytes) -> Cluster:
    """`parse`, once for all who ask of the same bytes: the pass, the kernel, the compiler. Not to be changed."""
    return parse(data)


def _arg(n: Any) -> Arg:
    dtype = from_tf(n.attr["T"].type)
    if dtype is None:
        raise ValueError(f"cluster argument {n.name!r} has type {n.attr['T'].type}, which HPU has not")
    assigns = n.attr["_assigns"].i if "_assigns" in n.attr else -1
    return Arg(dtype, n.attr["_host"].b, n.attr["_name"].s.decode(), n.attr["_variable"].b, assigns)


class Writer:
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
        n.attr["T"].type = arg.dtype.tf_enum
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


def digest(data: bytes) -> str:
    """A name-free SHA-256 of a serialized cluster: equal for equal computations whatever the ops were called."""
    from tensorflow.core.framework import graph_pb2

    graph = graph_pb2.GraphDef.FromString(data)
    for n in graph.node:
        for key in ("_name", "_cluster"):
            if key in n.attr:
                del n.attr[key]
        if n.op == LOOP:
            n.attr["body"].s = digest(n.attr["body"].s).encode()
    return hashlib.sha256(graph.SerializeToString(deterministic=True)).hexdigest()


@functools.lru_cache(maxsize=256)
def content_digest(data: bytes) -> str:
    """`digest`, once for all who ask of the same bytes."""
    return digest(data)


def custom_content(cluster: Cluster) -> list[list[str]]:
    """[op, content] of the ops whose lowering the program brings, loops included, by op."""
    if not CUSTOM:
        return []
    found: dict[str, str] = {}
    stack = [cluster]
    while stack:
        for node in stack.pop().nodes:
            row = lookup(node.op)
            if node.op == LOOP:
                stack.append(parsed(node.proto.attr["body"].s))
            elif row is not None and row.content is not None and node.op not in found:
                found[node.op] = row.content()
    return [[op, found[op]] for op in sorted(found)]


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
            tf_type = variable_type(node)
        dtype = from_tf(tf_type)
        if dtype is None:
            raise KeyError(f"{node.op}: input {name!r} has type {tf_type}, which HPU has not")
        host = not resource and (name in (*row.fixed, *row.host) or dtype is DType.I32)
        entries.append(Arg(dtype, host, name, resource))
    writer = Writer(node.op)
    order = sorted(range(len(entries)), key=lambda at: entries[at].host)
    refs = {at: writer.arg(entries[at]) for at in order}
    del node.input[:]
    me = writer.node(node, [refs[at] for at in range(len(entries))])
    positions = {name: slices[name].start for name in row.updates}
    outputs: list[Arg] = [Arg(entries[at].dtype, False, name, True, order.index(at)) for name, at in positions.items()]
    for name, tf_type in zip(facts.output_names(node), facts.output_types(node), strict=True):
        dtype = from_tf(tf_type)
        if dtype is None:
            raise KeyError(f"{node.op}: output {name!r} has type {tf_type}, which HPU has not")
        outputs.append(Arg(dtype, dtype is DType.I32 or name in row.host_outputs, name))
    for k, out in enumerate(outputs):
        writer.result(f"{me}:{k}" if k else me, out)
    return writer.bytes()


def variable_type(node: Any) -> int:
    """The element type of the variables of a resource op, as `opdefs.variable_type`; node: a NodeDef."""
    return opdefs.variable_type(node.op, {name: value.type for name, value in node.attr.items()})


def info(data: bytes) -> tuple[list[int], list[tuple[int, int]]]:
    """What the native kernel asks of a cluster: its fixed inputs, and the seeds of its random states."""
    cluster = parsed(data)
    return cluster.fixed_inputs(), cluster.seeds()
