"""What a function would launch and what it would leave to the host, without running it: lowered clusters with sizes.

The graph pass is rehearsed (see `tensorflow.graph.rehearsal`). Sizes come from TensorFlow's shape inference of the
placed graph, from the lowered program where one launch feeds another, and from bounds where they depend on values
(`sizes`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from habana_tf.card.model.kernels import nbytes, size
from habana_tf.card.model.lowered import Lowered
from habana_tf.card.prediction.foreseen import BoundedSize, Foreseen, PredictionError
from habana_tf.card.prediction.prediction import HostOp, Transfer
from habana_tf.cluster.cluster import Cluster
from habana_tf.cluster.lower import ClusterLowering
from habana_tf.cluster.lowering_context import LoweringError
from habana_tf.ir.constant_folding import constant
from habana_tf.ir.dtypes import from_number
from habana_tf.tensorflow.clusters.cluster import TensorFlowCluster, parse, parsed
from habana_tf.tensorflow.clusters.writer import of_node
from habana_tf.tensorflow.dry_run.sizes import BOUNDS, Sizes
from habana_tf.tensorflow.facts import opdefs
from habana_tf.tensorflow.graph.ops import FORWARDING, RESOURCE, input_types, output_types
from habana_tf.tensorflow.graph.rehearsal import rehearse
from habana_tf.tensorflow.graph.report import GraphRecord
from habana_tf.tensorflow.graph.shapes import Shapes
from habana_tf.tensorflow.graph.view import Node, Ref, View, behind
from habana_tf.tensorflow.lowering.table import lookup

QUIET = frozenset(
    "Arg _Arg _Retval Const Placeholder VarHandleOp ReadVariableOp AssignVariableOp NoOp Identity IdentityN Shape "
    "VariableShape StatefulPartitionedCall PartitionedCall HpuLaunch".split()
)
"""Ops that move or name what is there already: neither the card nor the host has work with them."""
ARGUMENTS = ("Placeholder", "_Arg", "Arg")


def foresee(function: Any, examples: Sequence[Any | None] = ()) -> Foreseen:
    """What a ConcreteFunction would launch, and the functions it calls.

    examples: for its first arguments, values that count where a value fixes a size, as NumPy arrays.

    Raises PredictionError for a size that the inputs leave open, and what `rehearse` raises.
    """
    seen: list[tuple[View, Sizes]] = []
    signature = function.function_def.signature
    out = Foreseen(arguments=[arg.name for arg in signature.input_arg])
    given = {name: value for name, value in zip(out.arguments, examples, strict=False) if value is not None}

    def see(_: GraphRecord, view: View, shapes: Shapes) -> None:
        seen.append((view, _sizes(view, shapes, {} if seen else given)))

    rehearse(function, see, moved=True)
    for k, (view, sizes) in enumerate(seen):
        _graph(view, sizes, out, called=k > 0)
        out.bounds += sizes.bounds
    return out


def _sizes(view: View, shapes: Shapes, given: dict[str, Any]) -> Sizes:
    """What TensorFlow knows of the tensors that nodes read; it can be asked during the pass only. given: values of
    arguments, by name."""
    read = dict.fromkeys(ref for node in view.alive() for ref in node.inputs if ref[0].op != "HpuLaunch")
    handles = (
        ref
        for node in view.alive()
        for ref, tf_type in zip(node.inputs, input_types(node), strict=False)
        if tf_type == RESOURCE
    )
    variables = {ref: shape for ref in dict.fromkeys(handles) if (shape := shapes.variable(ref)) is not None}
    values = {(view.by_name[name], 0): value for name, value in given.items() if name in view.by_name}
    return Sizes({ref: shapes.partial(ref) for ref in read}, variables, values)


def _graph(view: View, sizes: Sizes, out: Foreseen, called: bool) -> None:
    """called: the graph is of a function that another one calls, which gives it its arguments."""
    for node in view.topological():
        if node.op == "HpuLaunch":
            launch = _launch(node, parsed(node.proto.attr["cluster"].s), sizes)
        elif node.op not in QUIET and "HPU" in node.device and lookup(node.op) is not None:
            launch = _launch(node, parse(of_node(node.proto.SerializeToString())), sizes)
        else:
            sizes.passed(node)
            if node.op == "LoopCond":
                out.loops.append(node.name)
            if _on_host(node):
                nbytes_ = _to_host(node, sizes)
                out.host.append(HostOp(node.op, node.name, nbytes_))
                if nbytes_:
                    out.transfers.append(Transfer(node.name, "host", nbytes_))
            continue
        out.launches.append(launch)
        sizes.launched(node, launch)
        _feeds(node, launch, out, called)


def _on_host(node: Node) -> bool:
    """Whether an op is work of the host: placed there, or by TensorFlow's CPU kernel that stands in for one of HPU."""
    return node.op not in QUIET and ("HPU" not in node.device or node.op in BOUNDS)


def _feeds(node: Node, launch: Lowered, out: Foreseen, called: bool) -> None:
    """Notes what a launch reads that comes over PCIe: arguments, and what ops of the host made."""
    for k, ref in enumerate(_inputs(node, launch.cluster)):
        source, output = behind(ref, FORWARDING)
        if source.op in ARGUMENTS and not called:
            out.fed[source.name] = nbytes(launch.made[-1, k])
        elif _on_host(source) and not launch.cluster.inputs[k].host:
            made = Transfer(f"{source.name}:{output}" if output else source.name, "card", nbytes(launch.made[-1, k]))
            if made not in out.transfers:
                out.transfers.append(made)


def _inputs(node: Node, cluster: Cluster) -> list[Ref]:
    """The tensors that a launch reads, in the order of its cluster: a cluster of one op has its own (`of_node`)."""
    if node.op == "HpuLaunch":
        return node.inputs
    slices = opdefs.known(node.op).input_slices(node.proto)
    places = {name: iter(range(where.start, where.stop)) for name, where in slices.items()}
    return [node.inputs[next(places[arg.name])] for arg in cluster.inputs]


def _launch(node: Node, cluster: TensorFlowCluster, sizes: Sizes) -> Lowered:
    inputs = _inputs(node, cluster)
    shapes: list[tuple[int, ...]] = []
    for arg, ref in zip(cluster.inputs, inputs, strict=True):
        shape = sizes.variables.get(ref) if arg.variable and ref in sizes.variables else sizes.shape(ref)
        if shape is None:
            raise PredictionError(
                f"{arg.name!r}, which {node.name} needs, has a size that is known only at run time ({ref[0]!r}): give "
                "inputs of known sizes, or state it with tf.ensure_shape"
            )
        shapes.append(shape)
    values: list[Any | None] = [None] * len(inputs)
    for k in cluster.fixed_inputs():
        values[k] = sizes.value(inputs[k])
    try:
        return _lowered(cluster, shapes, values, sizes)
    except LoweringError as error:
        for k in cluster.fixed_inputs():
            if values[k] is None:
                raise PredictionError(
                    f"{inputs[k][0]!r} fixes the size of an output of {node.name}, and its value is known only at run "
                    "time: give an argument as an array whose values count, or predict a function in which it is a "
                    "constant"
                ) from error
        raise PredictionError(f"{node!r} cannot be predicted: {error}") from error


def _lowered(
    cluster: TensorFlowCluster, shapes: Sequence[Sequence[int]], values: Sequence[Any | None], sizes: Sizes
) -> Lowered:
    """The cluster lowered. Where ids decide one number (the last segment), it counts as the number of ids."""
    walk = ClusterLowering(cluster, shapes, values)
    context = walk.context
    for op in cluster.nodes:
        row = lookup(op.op)
        for name in row.fixed if row is not None and row.counts is not None else ():
            ids = [walk.made[ref] for ref in op.inputs[op.arg_slices[name]]]
            if any(constant(n, context.fixed) is None for n in ids):
                most = sum(map(size, ids))
                context.counts = {**context.counts, ids[0]: most}
                sizes.bounds.append(BoundedSize(op.op, op.name, (most,)))
        walk.step(op)
    return Lowered(cluster, walk.program(), walk.made)


def _to_host(node: Node, sizes: Sizes) -> int:
    """Bytes that an op on the CPU gets from launches."""
    total = 0
    for source, k in node.inputs:
        if source.op == "HpuLaunch":
            dtype = from_number(output_types(source)[k])
            total += math.prod(sizes.shape((source, k)) or ()) * (dtype.bytes if dtype else 0)
    return total
