"""Keeps TensorFlow from computing large constants in a graph that will not run.

Constant folding computes whatever follows from constants alone: of a product of two tensors of ones of 8,192 rows every
element, for half a minute. A rehearsed graph needs shapes, axes and masks, which are small. So what works on large
constants is marked with an attribute for which TensorFlow leaves an op alone, and stays in the graph as an op. Tensors
of one value (`Fill`) cost nothing to fold, and are folded.

    Fill (8192, 8192) -> MatMul -> Mean         MatMul and Mean are marked
    Range (512,) -> GreaterEqual (512, 512)     folded as in a run
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

_log = logging.getLogger("habana_tf")

LARGE = 1 << 20
"""Elements of a tensor whose computation takes more than a moment."""
MARK = "_tpu_not_folded"
"""TensorFlow's constant folding passes over ops with an attribute whose name begins with `_tpu_` (MaybeFoldable in
constant_folding.cc)."""
GROWING = frozenset("Fill BroadcastTo Tile OneHot Range LinSpace".split())
"""Ops that make a large tensor of small ones. A function without one has no large constant to compute."""


def large(operations: Iterable[Any]) -> list[Any]:
    """The operations of a graph, in the order in which they were made, that compute on large constants."""
    derived, found = set(), []
    for op in operations:
        if op.type == "Const":
            derived.add(op)
        elif op.inputs and not op.op_def.is_stateful and all(t.op in derived for t in op.inputs):
            derived.add(op)
            sizes = (t.shape.num_elements() for t in (*op.inputs, *op.outputs))
            if op.type != "Fill" and any(n is not None and n > LARGE for n in sizes):
                found.append(op)
    return found


def mark(graph: Any) -> None:
    """Marks the operations of a tf.Graph that has not run."""
    from tensorflow.core.framework import attr_value_pb2

    for op in large(graph.get_operations()):
        op._set_attr(MARK, attr_value_pb2.AttrValue(b=True))


def mark_functions(library: Any) -> None:
    """Marks the nodes of functions in a FunctionDefLibrary."""
    from tensorflow.python.framework import function_def_to_graph

    for function in library.function:
        if not any(node.op in GROWING for node in function.node_def):
            continue
        try:
            graph = function_def_to_graph.function_def_to_graph(function)
        except Exception as why:  # it calls what is not known here: its constants may be computed then, which is slow
            _log.info("Large constants of the function %s are not looked for: %s", function.signature.name, why)
            continue
        names = {op.name for op in large(graph.get_operations())}
        for node in function.node_def:
            if node.name in names:
                node.attr[MARK].b = True
