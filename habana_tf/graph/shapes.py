"""Static shapes, asked for only where a rewrite depends on one.

TensorFlow's own inference answers (`item.output_properties`), in which an unknown extent is a negative number that is
the same wherever it is the same extent. It does not see through the handle of a variable, so the shape of a variable
is read from where the handle enters the graph.
"""

from __future__ import annotations

from typing import Any

from .ops import FORWARDING, attr
from .view import Ref

Shape = tuple[int, ...]


class Shapes:
    """item: TensorFlow's Grappler item (`output_properties(node) -> list[bytes]`), or None."""

    def __init__(self, item: Any = None) -> None:
        self._item = item
        self._known: dict[Ref, Shape | None] = {}

    def get(self, ref: Ref) -> Shape | None:
        """The shape of a tensor; None if its rank, or an extent without a name, is unknown."""
        if ref not in self._known:
            self._known[ref] = None  # against a loop's back edge
            shape = self._inferred(ref)
            self._known[ref] = self._derived(ref) if shape is None else shape
        return self._known[ref]

    @staticmethod
    def variable(handle: Ref) -> Shape | None:
        """The shape of the variable behind a handle; None as in `get`."""
        node = handle[0]
        while node.op in ("Identity", "Switch", "Enter"):
            node = node.inputs[0][0]
        if node.op == "VarHandleOp":
            return _extents(attr(node, "shape").shape)
        if node.op == "_Arg" and "_handle_shapes" in node.proto.attr:
            shapes = node.proto.attr["_handle_shapes"].list.shape
            return _extents(shapes[0]) if len(shapes) == 1 else None
        return None

    def know(self, ref: Ref, shape: Shape | None) -> None:
        """Tells the shape of a tensor that a rewrite made."""
        self._known[ref] = shape

    def _inferred(self, ref: Ref) -> Shape | None:
        node, output = ref
        if self._item is None or node.original_name is None:
            return None
        properties = self._item.output_properties(node.original_name)
        if output >= len(properties):
            return None
        from tensorflow.core.grappler.costs import op_performance_data_pb2

        shape = op_performance_data_pb2.OpInfo.TensorProperties.FromString(properties[output]).shape
        return _extents(shape)

    def _derived(self, ref: Ref) -> Shape | None:
        node, output = ref
        if node.op in FORWARDING or node.op in ("Switch", "Cast"):
            return self.get(node.inputs[0])
        if node.op == "ReadVariableOp":
            return self.variable(node.inputs[0])
        if node.op == "Const":
            return _extents(attr(node, "value").tensor.tensor_shape)
        if node.op in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3") and 0 < output < 5:
            return self.get(node.inputs[1])
        return None


def _extents(shape: Any) -> Shape | None:
    extents = tuple(d.size for d in shape.dim)
    return None if shape.unknown_rank or -1 in extents else extents
