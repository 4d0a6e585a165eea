"""Static shapes, computed only where a rewrite depends on one.

TensorFlow's inference gives them (`item.output_properties`): an unknown extent is a negative number, the same one for
equal extents. It does not see through variable handles, so a variable's shape is read from where its handle enters the
graph.
"""

from __future__ import annotations

from typing import Any

from habana_tf.tensorflow.graph.ops import FORWARDING, attr
from habana_tf.tensorflow.graph.view import Ref, behind

Shape = tuple[int, ...]


class Shapes:
    """item: TensorFlow's Grappler item (`output_properties(node) -> list[bytes]`), or None."""

    def __init__(self, item: Any = None) -> None:
        self._item = item
        self._known: dict[Ref, Shape | None] = {}

    def get(self, ref: Ref) -> Shape | None:
        """The shape of a tensor; None if its rank, or an extent without a name, is unknown."""
        return _whole(self.partial(ref))

    def partial(self, ref: Ref) -> Shape | None:
        """The shape of a tensor with what is known of it: an extent without a name is -1; None if its rank is not."""
        asked = []
        at: Ref | None = ref
        shape: Shape | None = None
        while at is not None:
            if at in self._known:
                shape = self._known[at]
                break
            asked.append(at)
            self._known[at] = None  # against a loop's back edge
            shape = self._inferred(at)
            at = None if shape is not None else self._same(at)
        if shape is None and asked:
            shape = self._read(asked[-1])
        for at in asked:
            self._known[at] = shape
        return shape

    @staticmethod
    def variable(handle: Ref) -> Shape | None:
        """The shape of the variable behind a handle; None as in `get`."""
        node = behind(handle, ("Identity", "Switch", "Enter"))[0]
        if node.op == "VarHandleOp":
            return _whole(_extents(attr(node, "shape").shape))
        if node.op == "_Arg" and "_handle_shapes" in node.proto.attr:
            shapes = node.proto.attr["_handle_shapes"].list.shape
            return _whole(_extents(shapes[0])) if len(shapes) == 1 else None
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

    @staticmethod
    def _same(ref: Ref) -> Ref | None:
        """The tensor whose shape this one has."""
        node, output = ref
        if node.op in FORWARDING or node.op in ("Switch", "Cast"):
            return node.inputs[0]
        if node.op in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3") and 0 < output < 5:
            return node.inputs[1]
        return None

    def _read(self, ref: Ref) -> Shape | None:
        """The shape of what holds its own."""
        node, _ = ref
        if node.op == "ReadVariableOp":
            return self.variable(node.inputs[0])
        if node.op == "Const":
            return _extents(attr(node, "value").tensor.tensor_shape)
        return None


def _extents(shape: Any) -> Shape | None:
    extents = tuple(d.size for d in shape.dim)
    return None if shape.unknown_rank else extents


def _whole(shape: Shape | None) -> Shape | None:
    return None if shape is None or -1 in shape else shape
