"""`explain()`: before training, which ops of a function or a model would fall to the CPU, and why.

What: traces the callable, lets TensorFlow place the graph and the graph pass find its clusters, as for a real run, and
stops there: no op runs, nothing is compiled. Functions that stay calls (Keras 2.15's LSTM and GRU) are looked at too.

How: a session that makes a callable and never calls it has TensorFlow place and optimize the graph. Handles of
variables become `VarHandleOp` nodes of the same type and shape, because the pass reads both from where a handle
enters the graph; other inputs are fed. What the pass does is told to us instead of the placement report.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from ..device_state import is_loaded
from . import pipeline
from .ops import RESOURCE, VARIANT
from .report import GraphRecord, PlacementReport, refused_rows, text
from .view import View

SPECIALIZED = "_specialized_for_"
"""Stands in the name of a function that TensorFlow's optimizer made for one call, behind the name it had."""


class ExplainError(RuntimeError):
    """Nothing can be explained; the message says what is missing."""


@dataclass(frozen=True)
class Explanation:
    """What would happen, per part: "function", or "call" and "train step" of a model. `print(it)` shows tables.

    Each part is a report on its graphs: the traced one first, then the functions it calls.
    """

    parts: dict[str, PlacementReport]

    @property
    def on_cpu(self) -> list[dict[str, Any]]:
        """The ops that would run on the CPU, over all parts: {op, count, device, reason, text}."""
        totals: Counter[Any] = Counter()
        for part in self.parts.values():
            totals.update(part.totals)
        return [row for row in refused_rows(totals) if row["device"] == "CPU"]

    def clusters(self, part: str | None = None) -> int:
        """How many clusters one part would have (by default the last one, a compiled model's train step)."""
        chosen = self.parts[part] if part is not None else list(self.parts.values())[-1]
        return sum(len(graph.launches) for graph in chosen.graphs)

    def to_json(self) -> str:
        """{part: {clusters, nodes, on_hpu, and what `PlacementReport.to_json` has}}"""
        data = {
            name: {
                "clusters": self.clusters(name),
                "nodes": sum(graph.nodes for graph in part.graphs),
                "on_hpu": sum(graph.on_hpu for graph in part.graphs),
                **part.data(),
            }
            for name, part in self.parts.items()
        }
        return json.dumps(data, indent=2)

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.table import Table

        tables = []
        for name, part in self.parts.items():
            nodes, on_hpu = sum(g.nodes for g in part.graphs), sum(g.on_hpu for g in part.graphs)
            count = self.clusters(name)
            title = f"{name}: {nodes} nodes, {on_hpu} on HPU, {count} cluster{'' if count == 1 else 's'}"
            table = Table("op on the CPU", "count", "reason", title=title, title_justify="left")
            rows = [row for row in refused_rows(part.totals) if row["device"] == "CPU"]
            for row in rows:
                table.add_row(row["op"], str(row["count"]), row["text"])
            tables.append(table if rows else f"{title}; nothing on the CPU")
        return Group(*tables)

    def __str__(self) -> str:
        return text(self)


def explain(fn_or_model: Any, *inputs: Any) -> Explanation:
    """Which ops of a function or a Keras model would run on the CPU, why, and how many clusters there would be.

    fn_or_model: a Python function, a `tf.function`, a layer, or a Keras model. inputs: its arguments as arrays,
    tensors or `tf.TensorSpec`s. For a model they are those of `fit`: x, and, if it is compiled, y and sample weights,
    or one `tf.data.Dataset` of them. With y, the train step is explained as well as the call.

    Nothing is executed but the initializers of variables that the first call would make anyway. Clusters and placement
    are those of a run on such inputs; settings such as TF_PLACE_ON_CPU and TF_BF16_CONVERSION hold.

    Raises ExplainError before `load_habana_module()`, in TensorFlow 1 graph mode, or when the graph pass fails.
    """
    import tensorflow as tf

    if not is_loaded():
        raise ExplainError("explain() asks TensorFlow what it places on HPU: call load_habana_module() first")
    if not tf.executing_eagerly():
        raise ExplainError("explain() traces functions by itself: call it outside tf.function and graph mode")
    if isinstance(fn_or_model, tf.keras.Model):
        functions = _model_functions(fn_or_model, inputs)
    else:
        functions = {"function": _traced(fn_or_model, inputs)}
    return Explanation({name: PlacementReport.of(_judged(function)) for name, function in functions.items()})


def _traced(fn: Any, inputs: tuple[Any, ...]) -> Any:
    """The ConcreteFunction of a callable on these inputs."""
    import tensorflow as tf

    if hasattr(fn, "captured_inputs"):  # it is one
        return fn
    traceable = fn if hasattr(fn, "get_concrete_function") else tf.function(lambda *args: fn(*args))
    return traceable.get_concrete_function(*inputs)


def _model_functions(model: Any, inputs: tuple[Any, ...]) -> dict[str, Any]:
    """The call of a model, and the train step of a compiled one that got targets."""
    import tensorflow as tf

    data = inputs
    if len(inputs) == 1 and isinstance(inputs[0], tf.data.Dataset):
        spec = inputs[0].element_spec
        data = spec if isinstance(spec, tuple) else (spec,)
    if not data:
        raise ExplainError("explain(model, x, y): give the model's inputs, as arrays, tensors or tf.TensorSpecs")
    out = {"call": tf.function(lambda x: model(x, training=False)).get_concrete_function(data[0])}
    compiled = getattr(model, "compiled", getattr(model, "_is_compiled", False))
    if compiled and len(data) > 1:
        if hasattr(model, "_symbolic_build"):  # Keras 3 makes metrics and slots outside the step
            model._symbolic_build(data_batch=data)
        step = tf.function(lambda batch: model.distribute_strategy.run(model.train_step, args=(batch,)))
        out["train step"] = step.get_concrete_function(data)
    return out


def _judged(function: Any) -> list[GraphRecord]:
    """The record of a ConcreteFunction, and of every function it calls."""
    graph = function.graph
    outer = {id(inner): tensor for tensor, inner in graph.captures}
    handles = {k: outer[id(t)] for k, t in enumerate(graph.inputs) if t.dtype == RESOURCE and id(t) in outer}
    signature = function.function_def.signature
    return _run_pass(function.function_def, graph.as_graph_def().library, handles, _fetchable(signature), set())


def _run_pass(
    function: Any, library: Any, handles: dict[int, Any], outputs: list[str], seen: set[str]
) -> list[GraphRecord]:
    """Has TensorFlow place and optimize the body of a FunctionDef, and of what it calls.

    library: the functions it may call. handles: the tensors behind arguments that are resources, as far as known.
    outputs: names of the results that are wanted. seen: the functions that were looked at.
    """
    import tensorflow as tf
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.eager import context
    from tensorflow.python.framework import function_def_to_graph

    graph_def, tensors = function_def_to_graph.function_def_to_graph_def(function)
    feeds = [node for node in graph_def.node if node.op in ("Placeholder", "PlaceholderWithDefault")]
    arguments = {node.name: node for node in feeds}
    for k, handle in handles.items():
        _as_variable(arguments[function.signature.input_arg[k].name], handle)
    # Lowered control flow leaves an IdentityN where it is fetched itself, so it is waited for and read from behind.
    done = graph_def.node.add(name="explain/done", op="NoOp")
    done.input.extend(f"^{name}" for name in function.control_ret.values())
    fetches = []
    for k, name in enumerate(outputs):
        made = graph_def.node.add(name=f"explain/{k}", op="Identity", input=[tensors[function.ret[name]]])
        made.attr["T"].type = next(a.type for a in function.signature.output_arg if a.name == name)
        fetches.append(f"{made.name}:0")
    graph_def.library.CopyFrom(library)
    for node in (*graph_def.node, *(n for f in graph_def.library.function for n in f.node_def)):
        node.device = "/" + node.device.split("/")[-1] if "device:" in node.device else ""  # whatever the job's name
    config = config_pb2.ConfigProto()
    config.CopyFrom(context.context().config)
    config.graph_options.rewrite_options.min_graph_nodes = -1
    fed = [f"{node.name}:0" for node in feeds if node.op != "VarHandleOp"]
    wanted = config_pb2.CallableOptions(feed=fed, fetch=fetches, target=[done.name])
    judged: list[tuple[GraphRecord, View]] = []
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        session = tf.compat.v1.Session(graph=graph, config=config)
        with session, pipeline.watched(lambda record, view: judged.append((record, view))):
            session._make_callable_from_options(wanted)
    if not judged:
        raise ExplainError("the graph pass did not judge this graph; if it failed, the reason is on stderr")
    (record, view), *_ = judged
    records = [record]
    for name, results in _called(view).items():
        # TensorFlow may have specialized a function for one call; the body we have is the general one
        general = name.split(SPECIALIZED)[0]
        body = next((f for f in library.function if f.signature.name == general), None)
        if body is not None and name not in seen:
            seen.add(name)
            records.extend(_run_pass(body, library, {}, results, seen))
    return records


def _as_variable(node: Any, handle: Any) -> None:
    """Makes the Placeholder of a variable's handle the handle of a variable of that type and shape."""
    known = handle._handle_data
    if known is None or not known.is_set or len(known.shape_and_type) != 1:
        return  # an iterator, a table, ...
    node.op, node.device = "VarHandleOp", handle.device
    node.attr.clear()
    node.attr["dtype"].type = known.shape_and_type[0].dtype
    node.attr["shape"].shape.CopyFrom(known.shape_and_type[0].shape)
    node.attr["shared_name"].s = node.name.encode()


def _fetchable(signature: Any) -> list[str]:
    """The outputs of a function that a session can fetch."""
    return [arg.name for arg in signature.output_arg if arg.type not in (RESOURCE, VARIANT)]


def _called(view: View) -> dict[str, list[str]]:
    """The functions that the calls in a graph name, in order, with their outputs that can be fetched."""
    known = {f.signature.name: f.signature for f in view.graph.library.function}
    out: dict[str, list[str]] = {}
    for node in view.alive():
        for key in sorted(node.proto.attr):
            value = node.proto.attr[key]
            for function in (value.func, *value.list.func):
                if function.name in known:
                    out[function.name] = _fetchable(known[function.name])
    return out
