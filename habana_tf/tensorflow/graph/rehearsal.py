"""Runs the graph pass on a function without running the function.

What: TensorFlow places and optimizes the function's graph and the graph pass finds its clusters, as for a real run; no
op runs and nothing is compiled.

How: a session makes a callable and never calls it. Handles of variables become `VarHandleOp` nodes of the same type and
shape, because the pass reads both from where a handle enters the graph; other inputs are fed. The record of the pass
goes to the caller instead of the placement report.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from habana_tf.tensorflow.graph import pipeline
from habana_tf.tensorflow.graph.census import readable
from habana_tf.tensorflow.graph.large_constants import mark, mark_functions
from habana_tf.tensorflow.graph.ops import RESOURCE, VARIANT
from habana_tf.tensorflow.graph.report import GraphRecord
from habana_tf.tensorflow.graph.shapes import Shapes
from habana_tf.tensorflow.graph.view import View

SPECIALIZED = "_specialized_for_"
"""Stands in the name of a function that TensorFlow's optimizer made for one call, behind the name it had."""

See = Callable[[GraphRecord, View, Shapes], None]
"""Gets what is known of a graph, the graph as the pass left it, and its shapes, known only during the call."""


class RehearsalError(RuntimeError):
    """The pass has nothing to show; the message says where the reason is."""


def rehearse(function: Any, see: See, moved: bool = False) -> None:
    """Shows `see` the graph of a ConcreteFunction as the pass leaves it, then those of the functions it calls.

    moved: variables count as on the card wherever they are now, and so does what TensorFlow put beside them.

    Every graph is shown once, however many calls there are. Raises RehearsalError where the pass failed.
    """
    graph = function.graph
    outer = {id(inner): tensor for tensor, inner in graph.captures}
    handles = {k: outer[id(t)] for k, t in enumerate(graph.inputs) if t.dtype == RESOURCE and id(t) in outer}
    signature = function.function_def.signature
    _run_pass(function.function_def, graph.as_graph_def().library, handles, _fetchable(signature), set(), see, moved)


def _config() -> Any:
    """TensorFlow's optimizers once, over graphs of any size. Behind the graph pass it would compute all constants of
    the graph, however large: that is off."""
    from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2
    from tensorflow.python.eager import context

    config = config_pb2.ConfigProto()
    config.CopyFrom(context.context().config)
    config.graph_options.rewrite_options.min_graph_nodes = -1
    config.graph_options.rewrite_options.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    config.graph_options.optimizer_options.opt_level = config_pb2.OptimizerOptions.L0
    return config


def _run_pass(
    function: Any, library: Any, handles: dict[int, Any], outputs: list[str], seen: set[str], see: See,
    moved: bool,
) -> None:  # fmt: skip
    """Has TensorFlow place and optimize the body of a FunctionDef, and of what it calls.

    library: the functions it may call. handles: the tensors behind arguments that are resources, as far as known.
    outputs: names of the results that are wanted. seen: the functions that were looked at.
    """
    import tensorflow as tf
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.framework import function_def_to_graph

    graph_def, tensors = function_def_to_graph.function_def_to_graph_def(function)
    feeds = [node for node in graph_def.node if node.op in ("Placeholder", "PlaceholderWithDefault")]
    arguments = {node.name: node for node in feeds}
    for k, handle in handles.items():
        _as_variable(arguments[function.signature.input_arg[k].name], handle)
    if moved:
        _move(graph_def)
    # Lowered control flow leaves an IdentityN where it is fetched itself, so it is waited for and read from behind.
    done = graph_def.node.add(name="rehearsal/done", op="NoOp")
    done.input.extend(f"^{name}" for name in function.control_ret.values())
    fetches = []
    for k, name in enumerate(outputs):
        made = graph_def.node.add(name=f"rehearsal/{k}", op="Identity", input=[tensors[function.ret[name]]])
        made.attr["T"].type = next(a.type for a in function.signature.output_arg if a.name == name)
        fetches.append(f"{made.name}:0")
    graph_def.library.CopyFrom(library)
    for node in (*graph_def.node, *(n for f in graph_def.library.function for n in f.node_def)):
        node.device = "/" + node.device.split("/")[-1] if "device:" in node.device else ""  # whatever the job's name
    _free_of_strangers(graph_def)
    mark_functions(graph_def.library)
    fed = [f"{node.name}:0" for node in feeds if node.op != "VarHandleOp"]
    wanted = config_pb2.CallableOptions(feed=fed, fetch=fetches, target=[done.name])
    views: list[View] = []

    def first(record: GraphRecord, view: View, shapes: Shapes) -> None:
        if not views:  # the second time around is only a check
            views.append(view)
            see(replace(record, function=readable(function.signature.name)), view, shapes)

    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        mark(graph)
        session = tf.compat.v1.Session(graph=graph, config=_config())
        with session, pipeline.watched(first):
            session._make_callable_from_options(wanted)
    if not views:
        raise RehearsalError("the graph pass did not judge this graph; if it failed, the reason is on stderr")
    for name, results in _called(views[0]).items():
        # TensorFlow may have specialized a function for one call; the body we have is the general one
        general = name.split(SPECIALIZED)[0]
        body = next((f for f in library.function if f.signature.name == general), None)
        if body is not None and name not in seen:
            seen.add(name)
            _run_pass(body, library, {}, results, seen, see, moved)


def _free_of_strangers(graph_def: Any) -> None:
    """Takes away the wish to be where a node outside is: Keras' legacy optimizers ask for the place of a variable by
    the name of an input that a function's body does not have."""
    known = {f"loc:@{node.name}".encode() for node in graph_def.node}
    for node in graph_def.node:
        if "_class" in node.attr and not known.issuperset(node.attr["_class"].list.s):
            del node.attr["_class"]


def _move(graph_def: Any) -> None:
    """Lets variables, and what works on one, be placed anew."""
    handles = {node.name for node in graph_def.node if node.op == "VarHandleOp"}
    for node in graph_def.node:
        if node.name in handles or any(name.partition(":")[0] in handles for name in node.input):
            node.device = ""


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
