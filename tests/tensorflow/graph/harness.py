"""Small graphs for the tests of the passes, and an oracle: TensorFlow on the CPU, with each launch opened up again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2

from habana_tf.tensorflow.graph import frames, placement
from habana_tf.tensorflow.graph.view import Node, View
from habana_tf.tensorflow.lowering.table import lookup

HPU = "/job:localhost/replica:0/task:0/device:HPU:0"
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"

v1 = tf.compat.v1


class Item:
    """What Grappler tells of a graph. shapes: {node: [shape per output]}."""

    def __init__(
        self, preserve: Iterable[str] = (), fetch: Iterable[str] = (), shapes: Mapping[str, list[Any]] | None = None
    ) -> None:
        self.preserve, self.fetch, self.shapes = list(preserve), list(fetch), dict(shapes or {})

    def nodes_to_preserve(self) -> list[str]:
        return self.preserve

    def fetch_nodes(self) -> list[str]:
        return self.fetch

    def output_properties(self, node: str) -> list[bytes]:
        from tensorflow.core.grappler.costs import op_performance_data_pb2

        out = []
        for shape in self.shapes.get(node, []):
            properties = op_performance_data_pb2.OpInfo.TensorProperties()
            if shape is None:
                properties.shape.unknown_rank = True
            else:
                for extent in shape:
                    properties.shape.dim.add(size=extent)
            out.append(properties.SerializeToString())
        return out


def build(make: Callable[[], Any], cpu: Collection[str] = ()) -> graph_pb2.GraphDef:
    """The graph that `make` builds, as if TensorFlow had placed it: all on HPU but the nodes (or ops) in `cpu`."""
    graph = tf.Graph()
    with graph.as_default():
        v1.disable_control_flow_v2()
        try:
            make()
        finally:
            v1.enable_control_flow_v2()
    out = graph.as_graph_def()
    for node in out.node:
        node.device = CPU if node.name in cpu or node.op in cpu or node.op == "PyFunc" else HPU
    return out


def inferred(graph: graph_pb2.GraphDef) -> dict[str, list[Any]]:
    """The static shapes of a graph, as `Item` takes them."""
    g = tf.Graph()
    with g.as_default():
        tf.import_graph_def(graph_pb2.GraphDef.FromString(opened(graph).SerializeToString()), name="")
    shapes = {op.name: [o.shape for o in op.outputs] for op in g.get_operations()}
    return {
        k: [None if s.rank is None else [-1 if d is None else d for d in s.as_list()] for s in v]
        for k, v in shapes.items()
    }


def variable(name: str, shape: Iterable[int] = ()) -> tf.Tensor:
    """The handle of a float variable."""
    return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=tuple(shape), shared_name=name, name=name)


def read(handle: tf.Tensor, name: str) -> tf.Tensor:
    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32, name=name)


def view(graph: graph_pb2.GraphDef, preserve: Iterable[str] = ()) -> View:
    return View(graph, frozenset(preserve))


def prepared(graph: graph_pb2.GraphDef, preserve: Iterable[str] = ()) -> tuple[View, frames.Flow, placement.Placement]:
    """A graph ready for the phases behind placement."""
    v = view(graph, preserve)
    return v, frames.analyse(v), placement.place(v)


def node(v: View, name: str) -> Node:
    return v.by_name[name]


def inputs(n: Node) -> list[str]:
    return n.text_inputs()


def launches(graph: graph_pb2.GraphDef) -> list[node_def_pb2.NodeDef]:
    return [n for n in graph.node if n.op == "HpuLaunch"]


def cluster_ops(launch: node_def_pb2.NodeDef) -> list[str]:
    """The ops of a launch, sorted, without its arguments and constants."""
    body = graph_pb2.GraphDef.FromString(launch.attr["cluster"].s)
    return sorted(n.op for n in body.node if n.op not in ("_Arg", "_Retval", "NoOp", "Const"))


# --- the oracle ---


def opened(graph: graph_pb2.GraphDef) -> graph_pb2.GraphDef:
    """The graph on the CPU with every launch replaced by its ops, all behind its inputs, all before its results."""
    out = graph_pb2.GraphDef(versions=graph.versions)
    results: dict[str, str] = {}
    for n in graph.node:
        if n.op == "HpuLaunch":
            _open(n, out, results)
    for n in graph.node:
        if n.op != "HpuLaunch":
            copy = out.node.add()
            copy.CopyFrom(n)
    names = {n.name for n in graph.node if n.op == "HpuLaunch"}
    for n in out.node:
        n.device = ""
        n.attr.pop("_class", None)
        for k, text in enumerate(n.input):
            if text.startswith("^") and text[1:] in names:
                n.input[k] = f"{text}/done"
            elif text in results:
                n.input[k] = results[text]
    return out


def _open(launch: node_def_pb2.NodeDef, out: graph_pb2.GraphDef, results: dict[str, str]) -> None:
    body = graph_pb2.GraphDef.FromString(launch.attr["cluster"].s)
    data = [i for i in launch.input if not i.startswith("^")]
    start = out.node.add(name=f"{launch.name}/start", op="NoOp")
    start.input.extend(i for i in launch.input if i.startswith("^"))
    where: dict[str, str] = {}
    inside = []
    for n in body.node:
        if n.op == "_Arg":
            assert n.attr["_host"].b == (n.attr["index"].i >= len(launch.attr["Tin"].list.type))
            copy = out.node.add(name=f"{launch.name}/{n.name}", op="Identity")
            copy.attr["T"].type = n.attr["T"].type
            copy.input.append(data[n.attr["index"].i])
            start.input.append("^" + copy.name)
            where[n.name] = copy.name
    for n in body.node:
        if n.op in ("_Arg", "_Retval", "NoOp"):
            continue
        refs = [_renamed(i, where) for i in n.input]
        made = _dataflow(n, refs, f"{launch.name}/{n.name}", out)
        for copy in made:
            copy.input.append(f"^{launch.name}/start")
            inside.append(copy.name)
        where[n.name] = made[-1].name
    out.node.add(name=f"{launch.name}/done", op="NoOp").input.extend("^" + n for n in [f"{launch.name}/start", *inside])
    for n in body.node:
        if n.op == "_Retval":
            k = n.attr["index"].i
            assert n.attr["_host"].b == (k >= len(launch.attr["Tout"].list.type))
            copy = out.node.add(name=f"{launch.name}/{n.name}", op="Identity")
            copy.attr["T"].type = n.attr["T"].type
            copy.input.extend([_renamed(n.input[0], where), f"^{launch.name}/done"])
            results[f"{launch.name}:{k}" if k else launch.name] = copy.name


def _renamed(text: str, where: Mapping[str, str]) -> str:
    name, _, output = text.partition(":")
    return f"{where[name]}:{output}" if output else where[name]


def _dataflow(n: Any, refs: list[str], name: str, out: graph_pb2.GraphDef) -> list[Any]:
    """A node of a cluster as TensorFlow nodes; ops on variables' values have no TensorFlow op of that meaning."""
    row = lookup(n.op)
    assert row is not None
    op = {"AssignAddVariableOp": "AddV2", "AssignSubVariableOp": "Sub"}.get(n.op, n.op)
    made = [out.node.add(name=name, op=op)]
    if n.op == "ResourceApplyGradientDescent":
        scaled = made[0]
        scaled.name, scaled.op = f"{name}/scaled", "Mul"
        scaled.input.extend(refs[1:])
        made.append(out.node.add(name=name, op="Sub"))
        made[-1].input.extend([refs[0], scaled.name])
    else:
        made[0].input.extend(refs)
        if op == n.op:
            for key, value in n.attr.items():
                if not key.startswith("_"):
                    made[0].attr[key].CopyFrom(value)
            return made
    for m in made:
        m.attr["T"].type = n.attr["T" if "T" in n.attr else "dtype"].type
    return made


def run(
    graph: graph_pb2.GraphDef,
    fetch: Iterable[str],
    feed: Mapping[str, Any] | None = None,
    variables: Mapping[str, Any] | None = None,
) -> tuple[list[Any], dict[str, Any]]:
    """(fetched values, values of the variables afterwards) of one step of a graph with or without launches."""
    flat = opened(graph)
    g = tf.Graph()
    with g.as_default():
        tf.import_graph_def(flat, name="")
        handles = {k: g.get_tensor_by_name(f"{k}:0") for k in variables or {}}
        sets = [
            tf.raw_ops.AssignVariableOp(resource=h, value=np.asarray((variables or {})[k], "f4"))
            for k, h in handles.items()
        ]
        gets = {k: tf.raw_ops.ReadVariableOp(resource=h, dtype=tf.float32) for k, h in handles.items()}
        options = v1.ConfigProto()
        options.graph_options.rewrite_options.disable_meta_optimizer = True
        with v1.Session(graph=g, config=options) as session:
            session.run(sets)
            keys = []
            for name in fetch:
                operation = g.get_operation_by_name(name)
                keys.append(operation.outputs[0] if operation.outputs else operation)
            values = session.run(keys, {f"{k}:0": x for k, x in (feed or {}).items()})
            return values, {k: session.run(r) for k, r in gets.items()}
