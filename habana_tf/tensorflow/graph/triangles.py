"""Replaces large constants that are triangles of a matrix by comparisons of positions.

What: the mask of causal attention, as TensorFlow's constant folding leaves it, becomes a comparison of a column of
positions with a row of them.

Why: one byte per pair of positions grows with the square of the sequence; such a constant is too large for a cluster,
and every user would load it. The comparison is computed where it is used.

    Const [1,1,2048,2048] bool      ->      Const [1,1,2048,1] ─ Greater ─ Const [1,1,1,2048]

Invariants: the node keeps its name, shape and type; its positions get the control inputs of the constant.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from habana_tf import settings
from habana_tf.ir.triangles import first_row
from habana_tf.tensorflow.graph.ops import attr, output_types
from habana_tf.tensorflow.graph.view import Node, View


def compute(view: View) -> None:
    """Makes comparisons of all large constants that are triangles."""
    for node in list(view.nodes):
        if node.alive and node.op == "Const" and node.name not in view.preserved:
            value = _bools(node)
            first = None if value is None else first_row(value)
            if value is not None and first is not None:
                _become_comparison(view, node, value.shape, first)


def _bools(node: Node) -> Any:
    """The value of a large matrix of bools; None for every other constant."""
    from tensorflow.core.framework import types_pb2
    from tensorflow.python.framework import tensor_util

    if output_types(node)[0] != types_pb2.DT_BOOL:
        return None
    proto = attr(node, "value")
    sizes = [d.size for d in proto.tensor.tensor_shape.dim]
    if proto.ByteSize() <= settings.TF_MAX_CONST_SIZE_IN_CLUSTER.get() or len(sizes) < 2:
        return None
    return tensor_util.MakeNdarray(proto.tensor) if int(np.prod(sizes)) == sizes[-2] * sizes[-1] else None


def _become_comparison(view: View, node: Node, shape: tuple[int, ...], first: int) -> None:
    from tensorflow.core.framework import types_pb2

    sides = []
    for name, axis, begin in (("rows", -2, first), ("columns", -1, 0)):
        positions = np.arange(begin, begin + shape[axis], dtype=np.int32)
        sizes = [1] * len(shape)
        sizes[axis] = shape[axis]
        side = view.constant(f"{node.name}/{name}", positions.reshape(sizes), node.device)
        side.controls = list(node.controls)
        sides.append(side)
    node.become("Greater", T=types_pb2.DT_INT32)
    node.inputs, node.controls = [(side, 0) for side in sides], []
