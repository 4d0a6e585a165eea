"""Shape and value inference op by op, with what is known of each op's inputs.

What: a scratch graph beside the one being rewritten. Each tensor asked for is built there once: as an op, as a constant
where its value follows from known ones, or as a placeholder where only a shape is known.

Why: TensorFlow's inference over a whole graph stops at a Merge; a pass that knows which branch is taken can go on.

Invariant: an unknown is None; nothing is guessed, and nothing fails.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from habana_tf.tensorflow.graph.ops import attr, facts, output_types
from habana_tf.tensorflow.graph.shapes import Shape
from habana_tf.tensorflow.graph.view import Node, Ref

LARGEST = 4096
"""Elements of a value that is worth computing before the run."""
_ASK_SHAPES = frozenset({"Shape", "ShapeN", "Size", "Rank", "StridedSlice", "GatherV2"})
"""Ops whose value may follow from the shape of a tensor without a value: the last two from some extents of a Shape,
where others are unknown."""


class Scratch:
    """Tensors of another graph by the tensors here that they stand for."""

    def __init__(self) -> None:
        from tensorflow.python.framework import ops

        self._graph = ops.Graph()
        self._tensors: dict[Ref, Any] = {}
        self._values: dict[Ref, Any] = {}

    def has(self, ref: Ref) -> bool:
        return ref in self._tensors

    def value(self, ref: Ref) -> Any | None:
        """The value of a tensor as a NumPy array; None if it is not known before the run."""
        return self._values.get(ref)

    def shape(self, ref: Ref) -> Shape | None:
        """The shape of a tensor; None if it is not here, or a size of it is not known."""
        shape = self._tensors[ref].shape if ref in self._tensors else None
        return tuple(shape.as_list()) if shape is not None and shape.is_fully_defined() else None

    def know(self, ref: Ref, value: Any) -> None:
        """Tells the value of a tensor, a NumPy array."""
        from tensorflow.python.framework import constant_op

        with self._graph.as_default():
            self._tensors[ref] = constant_op.constant(value)
        self._values[ref] = value

    def alias(self, ref: Ref, source: Ref) -> None:
        """Says that a tensor is another one."""
        for table in (self._tensors, self._values):
            if source in table:
                table[ref] = table[source]

    def placeholder(self, ref: Ref, tf_type: int, shape: Shape | None) -> None:
        """A tensor of which nothing but type and shape is known; negative extents are unknown."""
        from tensorflow.python.ops import array_ops

        extents = None if shape is None else [None if n < 0 else n for n in shape]
        with self._graph.as_default():
            self._tensors[ref] = array_ops.placeholder(tf_type, extents)

    def op(self, node: Node, shapes: Sequence[Shape | None]) -> None:
        """The outputs of a node; its inputs must have been built. shapes: what is known of its outputs otherwise."""
        types = output_types(node)
        if node.op == "Const":
            self._constant((node, 0), attr(node, "value").tensor, types[0])
            return
        made = self._make(node, types)
        for k, tf_type in enumerate(types):
            if made is None:
                self.placeholder((node, k), tf_type, shapes[k])
            else:
                self._tensors[node, k] = made[k]
        known = node.op in _ASK_SHAPES or all(ref in self._values for ref in node.inputs)
        if made is not None and known:
            for k in range(len(types)):
                self._evaluate((node, k))

    def _constant(self, ref: Ref, proto: Any, tf_type: int) -> None:
        from tensorflow.python.framework import tensor_util

        extents = [d.size for d in proto.tensor_shape.dim]
        try:
            value = tensor_util.MakeNdarray(proto) if 0 < math.prod(extents) <= LARGEST else None
        except (TypeError, ValueError):
            value = None
        if value is None:
            self.placeholder(ref, tf_type, tuple(extents))
        else:
            self.know(ref, value)

    def _make(self, node: Node, types: list[int]) -> list[Any] | None:
        """The outputs of an op in the scratch graph; None where TensorFlow does not take it there."""
        from tensorflow.python.ops import array_ops

        known = facts(node.op)
        if known is None or known.stateful or any(ref not in self._tensors for ref in node.inputs):
            return None
        attrs = {k: v for k, v in node.proto.attr.items() if not k.startswith("_")}
        inputs = [self._tensors[ref] for ref in node.inputs]
        try:
            with self._graph.as_default():
                if node.op == "ShapeN":  # of which TensorFlow computes no value
                    return [array_ops.shape(x, out_type=tf_type) for x, tf_type in zip(inputs, types, strict=True)]
                return list(self._graph.create_op(node.op, inputs, types, attrs=attrs).outputs)
        except Exception:  # shapes that do not fit, functions that are not here: whatever it is, it is not known
            return None

    def _evaluate(self, ref: Ref) -> None:
        from tensorflow.python.framework import tensor_util

        tensor = self._tensors[ref]
        size = tensor.shape.num_elements() if tensor.dtype.is_numpy_compatible else None
        if size is not None and size <= LARGEST:
            value = tensor_util.try_evaluate_constant(tensor)
            value = self._of_shape(ref[0], tensor) if value is None else value
            if value is not None:
                self.know(ref, value)

    def _of_shape(self, node: Node, tensor: Any) -> Any | None:
        """The extents that a node takes out of a Shape of which others are unknown."""
        import numpy as np
        from tensorflow.python.framework import tensor_util

        index = self._values.get(node.inputs[1]) if node.op == "GatherV2" else None
        source = tensor if index is None else self._tensors[node.inputs[0]]
        if node.op == "Shape" or source.shape.rank != 1 or not source.dtype.is_integer:
            return None
        known = tensor_util.constant_value_as_shape(source)
        if known.rank is None or (index is not None and (index >= known.rank).any()):
            return None
        extents = np.array(known.as_list(), object)
        taken = extents if index is None else np.asarray(extents[index], object)
        return None if None in taken.reshape(-1).tolist() else taken.astype(tensor.dtype.as_numpy_dtype)
