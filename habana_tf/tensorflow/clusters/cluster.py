"""Reads a cluster of TensorFlow's ops from its GraphDef, and implements the interface of clusters for it.

`writer` says what its serialized form is.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from habana_tf.cluster.cluster import AnyShape, Arg, Cluster, Counting, InvalidArguments, OtherWay, Ref
from habana_tf.ir.dtypes import DType, from_number
from habana_tf.tensorflow.clusters import cpu_kernels, refusals
from habana_tf.tensorflow.clusters.any_shape import generalize
from habana_tf.tensorflow.clusters.attributes import plain
from habana_tf.tensorflow.clusters.digest import digest
from habana_tf.tensorflow.clusters.loop_form import LoopForm
from habana_tf.tensorflow.clusters.loops import LoopBody, LoopOp
from habana_tf.tensorflow.clusters.op import TensorFlowOp
from habana_tf.tensorflow.clusters.sources import lowerings_version
from habana_tf.tensorflow.facts import opdefs
from habana_tf.tensorflow.lowering.row import CUSTOM
from habana_tf.tensorflow.lowering.table import LOOP, lookup

T = TypeVar("T")

SHAPE_ONLY = frozenset({"Shape", "ShapeN", "Size", "Rank"})
"""Ops whose result follows from the shapes of their inputs."""


@dataclass(eq=False)
class TensorFlowCluster(Cluster):
    """A cluster whose ops are TensorFlow's. data: a GraphDef (see `writer`)."""

    nodes: list[TensorFlowOp]

    framework = "TensorFlow"

    @functools.cached_property
    def content(self) -> str:
        return digest(self.data)

    @classmethod
    def read(cls, data: bytes) -> TensorFlowCluster:
        return parse(data)

    def computed(self) -> list[tuple[str, object]]:
        """See `Cluster.computed`: the ops, the lowerings, and those that the program brings for some of them."""
        custom = _custom_content(self)
        parts = [*super().computed(), ("lowerings", lowerings_version())]
        return [*parts, ("custom ops", custom)] if custom else parts

    @functools.cached_property
    def has_bf16(self) -> bool:
        """Whether any tensor in it is bf16: an input, or by an op's attributes a result."""
        if any(a.dtype is DType.BF16 for a in self.inputs):
            return True
        attrs = (value for node in self.nodes for value in node.attrs.values())
        return any(DType.BF16 in value if isinstance(value, list) else value is DType.BF16 for value in attrs)

    def any_shape(self, shapes: Sequence[tuple[int, ...]], values: Sequence[Any | None]) -> AnyShape | None:
        (node,) = self.nodes
        row = node.row
        return generalize(row, node, shapes, values) if row is not None and row.generic else None

    def is_op_type(self, name: str) -> bool:
        return opdefs.facts(name) is not None

    def refusal(
        self, shapes: Sequence[Sequence[int]], values: Sequence[Any | None], launched: bool
    ) -> InvalidArguments | None:
        return refusals.refusal(self, shapes, values, launched)

    def other_way(self, shapes: Sequence[Sequence[int]], values: Sequence[Any | None]) -> OtherWay:
        return cpu_kernels.function(self, shapes, values)

    def fixed_inputs(self) -> list[int]:
        """The inputs whose values fix a shape somewhere in the cluster."""
        stack: list[Ref] = []
        for node in self.nodes:
            row = lookup(node.op)
            for name in row.fixed if row else ():
                stack.extend(node.inputs[node.arg_slices[name]])
        return self._followed(stack)

    @functools.cached_property
    def counted(self) -> list[tuple[tuple[int, ...], Counting]]:
        """(inputs, what counts them) for the fixed inputs whose values decide one number and nothing else."""
        found: dict[tuple[int, ...], Counting] = {}
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
        return [inputs[at] for at in loop_body(proto).origins[output][0]]
    return inputs


def loop_body(proto: Any) -> LoopBody:
    """What an `HpuLoop` does in each iteration. proto: its NodeDef."""
    return _loop_body(proto.attr["form"].s.decode(), proto.attr["body"].s)


@functools.lru_cache(maxsize=256)
def _loop_body(form: str, data: bytes) -> LoopBody:
    body = parsed(data)
    return LoopBody(LoopForm.parse(form), body.nodes, body.outputs)


def parse(data: bytes) -> TensorFlowCluster:
    """The cluster in a serialized GraphDef as `writer.ClusterWriter` makes it."""
    from tensorflow.core.framework import graph_pb2

    graph = graph_pb2.GraphDef.FromString(data)
    where: dict[str, int] = {}
    inputs: dict[int, Arg] = {}
    results: dict[int, tuple[Ref, Arg]] = {}
    nodes: list[TensorFlowOp] = []

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
            about = (len(nodes), n.op, shown, tuple(map(ref, n.input)), attrs, slices, n)
            nodes.append(LoopOp(*about, loop_body(n)) if n.op == LOOP else TensorFlowOp(*about))
    states = [n.index for n in nodes if (row := n.row) is not None and row.stateful_random]
    order = sorted(results)
    return TensorFlowCluster(
        name, [inputs[i] for i in sorted(inputs)], nodes, [results[i][0] for i in order],
        [results[i][1] for i in order], states, data,
    )  # fmt: skip


@functools.lru_cache(maxsize=256)
def parsed(data: bytes) -> TensorFlowCluster:
    """`parse`, cached: the pass, the kernel and the compiler read the same bytes. Not to be changed."""
    return parse(data)


def _arg(n: Any) -> Arg:
    dtype = from_number(n.attr["T"].type)
    if dtype is None:
        raise ValueError(f"cluster argument {n.name!r} has type {n.attr['T'].type}, which HPU has not")
    assigns = n.attr["_assigns"].i if "_assigns" in n.attr else -1
    return Arg(dtype, n.attr["_host"].b, n.attr["_name"].s.decode(), n.attr["_variable"].b, assigns)


def _custom_content(cluster: TensorFlowCluster) -> list[list[str]]:
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
