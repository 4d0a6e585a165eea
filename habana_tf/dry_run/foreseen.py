"""What a function would launch and what it would leave to the host, without running it: lowered clusters with sizes.

The graph pass is rehearsed (see `graph.rehearsal`). Sizes come from TensorFlow's shape inference of the placed graph,
and from the lowered program where one launch feeds another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from habana_tf.card.model.kernels import nbytes
from habana_tf.card.model.lowered import Lowered, lowered
from habana_tf.card.prediction.prediction import HostOp
from habana_tf.graph.ops import output_types
from habana_tf.graph.rehearsal import rehearse
from habana_tf.graph.report import GraphRecord
from habana_tf.graph.shapes import Shape, Shapes
from habana_tf.graph.view import Node, Ref, View
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import from_number
from habana_tf.lowering.table import lookup
from habana_tf.tensorflow_clusters.attributes import plain
from habana_tf.tensorflow_clusters.cluster import TensorFlowCluster, parse, parsed
from habana_tf.tensorflow_clusters.writer import of_node

QUIET = frozenset(
    "Arg _Arg _Retval Const Placeholder VarHandleOp ReadVariableOp AssignVariableOp NoOp Identity IdentityN Shape "
    "StatefulPartitionedCall PartitionedCall HpuLaunch".split()
)
"""Ops that move or name what is there already: neither the card nor the host has work with them."""


class PredictionError(RuntimeError):
    """Nothing can be predicted; the message says what is missing."""


@dataclass
class Foreseen:
    """Launches in the order of the graph; fed: bytes that the function's arguments bring to them; work of the host;
    the pass's record of each graph."""

    launches: list[Lowered] = field(default_factory=list)
    fed: int = 0
    host: list[HostOp] = field(default_factory=list)
    records: list[GraphRecord] = field(default_factory=list)


def foresee(function: Any) -> Foreseen:
    """What a ConcreteFunction would launch, and the functions it calls.

    Raises PredictionError for a size that the inputs leave open, and what `rehearse` raises.
    """
    seen: list[tuple[View, dict[Ref, Shape | None]]] = []
    out = Foreseen()

    def see(record: GraphRecord, view: View, shapes: Shapes) -> None:
        out.records.append(record)
        known: dict[Ref, Shape | None] = {}
        for node in view.alive():
            for ref in node.inputs:
                if ref not in known and ref[0].op != "HpuLaunch":
                    known[ref] = shapes.get(ref)
        seen.append((view, known))

    rehearse(function, see, moved=True)
    for view, known in seen:
        _graph(view, known, out)
    return out


def _graph(view: View, known: dict[Ref, Shape | None], out: Foreseen) -> None:
    for node in view.topological():
        if node.op == "HpuLaunch":
            launch = _launch(node, parsed(node.proto.attr["cluster"].s), known)
        elif node.op in QUIET:
            continue
        elif "HPU" in node.device and lookup(node.op) is not None:
            launch = _launch(node, parse(of_node(node.proto.SerializeToString())), known)
        else:
            if "HPU" not in node.device:
                out.host.append(HostOp(node.op, node.name, _crossing(node, known)))
            continue
        out.launches.append(launch)
        for k, (source, _) in enumerate(node.inputs):
            if source.op in ("Placeholder", "_Arg", "Arg"):
                out.fed += nbytes(launch.made[-1, k])
        for k, made in enumerate(launch.program.outputs):
            known[node, k] = tuple(map(ext.nominal, made.shape))


def _launch(node: Node, cluster: TensorFlowCluster, known: dict[Ref, Shape | None]) -> Lowered:
    shapes, values = [], []
    fixed = set(cluster.fixed_inputs())
    for k, ref in enumerate(node.inputs):
        shape = known.get(ref)
        if shape is None or any(n < 0 for n in shape):
            raise PredictionError(
                f"{cluster.inputs[k].name!r}, which {node.name} needs, has shape {shape}: give inputs of known sizes"
            )
        shapes.append(shape)
        values.append(_value(ref[0]) if k in fixed else None)
    return lowered(cluster, shapes, values)


def _value(node: Node) -> Any:
    if node.op == "Const":
        return plain(node.proto.attr["value"])
    raise PredictionError(
        f"{node!r} fixes the size of an output, and its value is known only at run time: predict a function in which "
        "it is a constant"
    )


def _crossing(node: Node, known: dict[Ref, Shape | None]) -> int:
    """Bytes that an op on the CPU gets from launches."""
    total = 0
    for source, k in node.inputs:
        if source.op == "HpuLaunch":
            dtype = from_number(output_types(source)[k])
            total += math.prod(known.get((source, k)) or ()) * (dtype.bytes if dtype else 0)
    return total
