"""Which nodes take the handle of a variable, and of which one.

A handle is followed back through the ops that pass it on to where it enters the graph. A handle with another origin has
the key None, and may be that of any variable.
"""

from __future__ import annotations

from collections.abc import Iterable

from habana_tf.tensorflow.graph.ops import CONTROL_FLOW, RESOURCE, attr, input_types, output_types
from habana_tf.tensorflow.graph.placement import Placement
from habana_tf.tensorflow.graph.view import Node, Ref, behind

VariableKey = tuple[str, ...]
Handles = dict[int, "VariableKey | None"]
"""Input position -> which variable (None: not known)."""

ENTRIES = ("VarHandleOp", "_Arg", "_DeviceArg", "Placeholder")
"""Ops by which a handle enters the graph."""
PASSED_ON = ("Identity", "Switch", "Enter")
"""Ops that pass a handle on."""
ASKS = frozenset({"VarIsInitializedOp", "VariableShape", "DisableCopyOnRead", "_Retval"})
"""They take a handle and leave the variable's value alone."""
PYTHON = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless"})
"""They run Python, which may do anything to any variable."""


def handle_key(ref: Ref) -> VariableKey | None:
    """The identity of a variable: where its handle enters the graph; None if that is not known."""
    node, output = behind(ref, PASSED_ON)
    if node.op == "VarHandleOp":
        shared = attr(node, "shared_name").s.decode()
        return ("VarHandleOp", attr(node, "container").s.decode(), shared or node.name)
    return (node.name, str(output)) if node.op in ENTRIES else None


def accesses(order: Iterable[Node], placement: Placement | None = None) -> dict[Node, Handles]:
    """The nodes that take handles of possible variables, each with the positions of those.

    order: sources first. placement: tells which further nodes take variables by their rows.
    """
    out: dict[Node, Handles] = {}
    carriers: set[Node] = set()
    for node in order:
        if node.op in ENTRIES:
            if RESOURCE in output_types(node):
                carriers.add(node)
            continue
        row = placement.row(node) if placement is not None else None
        certain = node.op in ("ReadVariableOp", "AssignVariableOp") or bool(row and (row.variables or row.updates))
        if not certain and carriers.isdisjoint(n for n, _ in node.inputs):
            continue
        if node.op in CONTROL_FLOW or node.op == "Identity":
            carriers.add(node)
            continue
        types = input_types(node)
        taken: Handles = {
            k: handle_key(ref)
            for k, ref in enumerate(node.inputs)
            if (certain or ref[0] in carriers) and (k >= len(types) or types[k] == RESOURCE)
        }
        if taken:
            out[node] = taken
    return out
