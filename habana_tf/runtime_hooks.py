"""The callbacks of native code: one function per callback of kernels/runtime/callbacks.h.

The bridge calls these under the GIL, from any thread, with no native lock held. They import what they need when
they are called, so that loading the plugin imports neither compiler nor graph pass. An exception becomes a
TensorFlow status: the one in its attribute `status_code` if it has one, else INTERNAL with the place it was raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from habana_tf.tensorflow.facts import opdefs

if TYPE_CHECKING:
    from habana_tf._native._bridge import GraphItem, Program
    from habana_tf.tensorflow.clusters.cluster import TensorFlowCluster
    from habana_tf.tensorflow.facts.registered import Registration

Info = tuple[bytes, list[int], list[int], list[tuple[int, int]]]
"""(cluster, op input behind each cluster input, inputs whose values fix a shape, seeds of the random states)"""


def node_info(node_def: bytes) -> Info:
    """The cluster of one op that runs by itself."""
    return _info(_node(node_def), _cluster_of(node_def))


def cluster_info(data: bytes) -> Info:
    """What an HpuLaunch must know of its cluster; its inputs are the cluster's, in the same order."""
    from habana_tf.tensorflow.clusters.cluster import parsed

    cluster = parsed(data)
    return data, [], cluster.fixed_inputs(), cluster.seeds()


def _cluster_of(node_def: bytes) -> TensorFlowCluster:
    from habana_tf.tensorflow.clusters.cluster import parsed
    from habana_tf.tensorflow.clusters.writer import of_node

    return parsed(of_node(node_def))


def _info(node: Any, cluster: TensorFlowCluster) -> Info:
    slices = opdefs.known(node.op).input_slices(node)
    positions = {name: iter(range(where.start, where.stop)) for name, where in slices.items()}
    order = [next(positions[arg.name]) for arg in cluster.inputs]
    return cluster.data, order, cluster.fixed_inputs(), cluster.seeds()


def _node(node_def: bytes) -> Any:
    from tensorflow.core.framework import node_def_pb2

    return node_def_pb2.NodeDef.FromString(node_def)


def variable_plan(node_def: bytes) -> tuple[Any, ...]:
    """How an op on resource variables runs outside a launch.

    ("dataflow", dtype, info, [(result, op input)] to assign, [results] that are the op's outputs), or for an op
    that HPU cannot lower: ("stock", dtype, op, reads only, [(attribute, serialized AttrValue)]).
    """
    from habana_tf.tensorflow.lowering import table

    node = _node(node_def)
    dtype = opdefs.variable_type_of(node)
    row = table.lookup(node.op)
    if row is not None and _takes(row, node):
        cluster = _cluster_of(node_def)
        info = _info(node, cluster)
        assigns = [(k, info[1][r.assigns]) for k, r in enumerate(cluster.results) if r.assigns >= 0]
        outputs = [k for k, r in enumerate(cluster.results) if r.assigns < 0]
        return "dataflow", dtype, info, assigns, outputs
    attrs = [(k, v.SerializeToString()) for k, v in node.attr.items() if not k.startswith("_")]
    return "stock", dtype, node.op, node.op.startswith("ResourceGather"), attrs


def stock_plan(node_def: bytes) -> tuple[str, list[tuple[str, bytes]]]:
    """How TensorFlow's CPU kernel runs an op that stands on HPU."""
    from habana_tf.tensorflow.facts import stand_ins

    return stand_ins.plan(_node(node_def))


def _takes(row: Any, node: Any) -> bool:
    """Whether the op table has these element types."""
    return all(node.attr[attr].type in {dtype.number for dtype in allowed} for attr, allowed in row.types.items())


def resolve(data: bytes, signature: list[tuple[int, tuple[int, ...], bytes | None]]) -> Program:
    """The program that runs a cluster on inputs of these types, shapes and values."""
    from habana_tf.resolver import resolve as resolver
    from habana_tf.tensorflow.clusters.cluster import parsed
    from habana_tf.tensorflow.facts import memory

    return resolver.resolve(parsed(data), signature, memory.given_out())


def optimize(graph: bytes, item: GraphItem) -> bytes | None:
    """TensorFlow's placed graph after the graph pass, or None when there is nothing to do."""
    from habana_tf.settings import habana as habana_variables
    from habana_tf.tensorflow.graph import foreseen_work, pipeline

    foreseen_work.announce_graph(graph)
    habana_variables.announce()  # scripts set some after loading
    return pipeline.optimize(graph, item)


def memory_text() -> str:
    """Bytes in use and in total on the card, for an out-of-memory error."""
    from habana_tf.hardware.chips import chip
    from habana_tf.tensorflow.facts import memory

    return f"{memory.in_use()['current']} bytes in use, {chip().hbm_bytes} bytes total"


def profile_start() -> None:
    """A session of TensorFlow's profiler begins."""
    from habana_tf.tensorflow.profiler import session

    session.start()


def profile_stop() -> bytes:
    """It ends: a serialized XSpace."""
    from habana_tf.tensorflow.profiler import session

    return session.stop()


def warn_of_index(text: str) -> None:
    """A launch met an index out of range."""
    from habana_tf.resolver import index_checks

    index_checks.warn(text)


def no_card_text() -> str:
    """The error of a process that found no free card at its first op."""
    from habana_tf.hardware import claim

    return claim.none_free()


def eager_context() -> Any:
    """The capsule of the user's eager context, or None."""
    from tensorflow.python.eager import context

    current = context.context()
    current.ensure_initialized()
    return current._handle


def registrations() -> list[Registration]:
    """The kernels to register."""
    from habana_tf.tensorflow.facts import registered

    return registered.registrations()
