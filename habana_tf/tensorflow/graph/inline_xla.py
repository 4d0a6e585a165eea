"""Replaces calls of functions marked for XLA by the functions' bodies.

What: a call on HPU of a function with `_XlaMustCompile` becomes the function's nodes, on HPU.

Why: XLA knows no HPU, so such a call fails when its kernel is made. Keras marks ops that TensorFlow's CPU kernels lack
and HPU has (convolutions in groups); compilation, which the mark asks for, happens here anyway.

Invariants: only bodies of known ops without effect are inlined; any other call just loses its mark. The nodes get the
control inputs of the call, and control edges from the call come from all of them.

    x ─ PartitionedCall(conv) ─ relu       ->       x ─ conv ─ relu
"""

from __future__ import annotations

from typing import Any

from habana_tf.tensorflow.graph.ops import device_type, facts, output_names
from habana_tf.tensorflow.graph.view import Node, Ref, View, replaced

_MARK = "_XlaMustCompile"
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})


def marked(view: View) -> int:
    """Opens every marked call on HPU; returns how many there were."""
    calls = [n for n in view.alive() if n.op in _CALLS and _MARK in n.proto.attr and device_type(n.device) == "HPU"]
    if not calls:
        return 0
    library = {f.signature.name: f for f in view.graph.library.function if f.ret}  # others come without a body
    instead: dict[Ref, Ref] = {}
    inside: dict[Node, list[Node]] = {}
    for call in calls:
        name = call.proto.attr["f"].func.name
        function = library.get(name) or _registered(name)
        if function is None or call.name in view.preserved or not all(map(_harmless, function.node_def)):
            del call.proto.attr[_MARK]
            continue
        inside[call] = _open(view, call, function, instead)
        view.remove(call)
    for node in view.alive():
        node.inputs = [replaced(instead, ref) for ref in node.inputs]
        if any(c in inside for c in node.controls):
            node.controls = list(dict.fromkeys(n for c in node.controls for n in inside.get(c, [c])))
    return len(calls)


def _registered(name: str) -> Any | None:
    """The function of this name that the program traced."""
    from tensorflow.core.framework import function_pb2
    from tensorflow.python.eager import context

    current = context.context()
    if not current.has_function(name):
        return None
    function = function_pb2.FunctionDef()
    function.CopyFrom(current.get_function_def(name))
    return function


def _harmless(proto: Any) -> bool:
    known = facts(proto.op)
    return known is not None and not known.stateful and proto.op not in _CALLS


def _open(view: View, call: Node, function: Any, instead: dict[Ref, Ref]) -> list[Node]:
    """Adds a function's nodes for a call. instead: the tensors that take the place of the call's."""
    from tensorflow.core.framework import node_def_pb2

    made: dict[str, Node] = {}
    arguments = dict(zip((a.name for a in function.signature.input_arg), call.inputs, strict=True))
    for proto in function.node_def:
        copy = node_def_pb2.NodeDef()
        copy.CopyFrom(proto)
        made[proto.name] = view.add(f"{call.name}/{proto.name}", proto.op, call.device, proto=copy)

    def tensor(text: str) -> Ref:
        name, _, output = text.partition(":")
        if not output:
            return arguments[name]
        argument, _, index = output.partition(":")
        return made[name], output_names(made[name]).index(argument) + int(index)

    for proto in function.node_def:
        node = made[proto.name]
        node.inputs = [tensor(text) for text in proto.input if text[0] != "^"]
        node.controls = [made[text[1:]] for text in proto.input if text[0] == "^" and text[1:] in made]
        for control in call.controls:
            node.add_control(control)
    for k, result in enumerate(function.signature.output_arg):
        instead[call, k] = tensor(function.ret[result.name])
    return list(made.values())
