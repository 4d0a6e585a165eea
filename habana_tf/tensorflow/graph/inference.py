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


class Scratch:
    """Tensors of another graph by the tensors here that they stand for."""

    def __init__(self) -> None:
        from tensorflow.python.framework import ops

        self._graph = ops.Graph()
        self._tensors: dict[Ref, Any] = {}
        self._values: dict[Ref, Any] = {}
        self._sizes: dict[Ref, list[int | None]] = {}
        """Of vectors of extents: those that are known."""

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
        if value.ndim == 1 and value.dtype.kind == "i":
            self._sizes[ref] = value.tolist()

    def alias(self, ref: Ref, source: Ref) -> None:
        """Says that a tensor is another one."""
        for table in (self._tensors, self._values, self._sizes):
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
        if node.op in ("Shape", "ShapeN", "Size", "Rank"):
            self._ask_shape(node, types)
            return
        if self._take(node):
            return
        made = self._make(node, types)
        for k, tf_type in enumerate(types):
            if made is None:
                self.placeholder((node, k), tf_type, shapes[k])
            else:
                self._tensors[node, k] = made[k]
        if made is not None and all(ref in self._values for ref in node.inputs):
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

    def _ask_shape(self, node: Node, types: list[int]) -> None:
        import numpy as np

        for k, tf_type in enumerate(types):
            dtype = np.int64 if tf_type == 9 else np.int32
            shape = self._tensors[node.inputs[k]].shape
            rank = shape.rank
            if node.op == "Rank" and rank is not None:
                self.know((node, k), np.array(rank, dtype))
            elif rank is not None and shape.is_fully_defined():
                extents = np.array(shape.as_list(), dtype)
                self.know((node, k), np.array(extents.prod(), dtype) if node.op == "Size" else extents)
            else:
                scalar = node.op in ("Size", "Rank")
                self.placeholder((node, k), tf_type, () if scalar else (-1 if rank is None else rank,))
                if rank is not None and not scalar:
                    self._sizes[node, k] = shape.as_list()

    def _take(self, node: Node) -> bool:
        """Whether a node takes known extents out of a vector in which others are unknown; then they are known."""
        import numpy as np

        sizes = self._sizes.get(node.inputs[0]) if node.inputs else None
        if sizes is None or None not in sizes:
            return False
        rest = [self._values.get(ref) for ref in node.inputs[1:]]
        if any(v is None or v.size != 1 for v in rest):
            return False
        numbers = [int(v.reshape(-1)[0]) for v in rest if v is not None]
        whole = np.array(sizes, object)
        if node.op == "StridedSlice":
            masks = ("begin_mask", "end_mask", "shrink_axis_mask", "ellipsis_mask", "new_axis_mask")
            from_start, to_end, one, *others = (attr(node, m).i for m in masks)
            if any(others):
                return False
            begin, end, step = numbers
            index: Any = begin if one else slice(None if from_start else begin, None if to_end else end, step)
        elif node.op == "GatherV2" and rest[0] is not None and numbers[1] == 0:
            index = int(numbers[0]) if rest[0].ndim == 0 else [int(numbers[0])]
        else:
            return False
        try:
            taken = np.array(whole[index], object)
        except IndexError:
            return False
        if any(n is None for n in taken.reshape(-1)):
            return False
        self.know((node, 0), taken.astype(np.int64 if output_types(node)[0] == 9 else np.int32))
        return True

    def _make(self, node: Node, types: list[int]) -> list[Any] | None:
        """The outputs of an op in the scratch graph; None where TensorFlow does not take it there."""
        known = facts(node.op)
        if known is None or known.stateful or any(ref not in self._tensors for ref in node.inputs):
            return None
        attrs = {k: v for k, v in node.proto.attr.items() if not k.startswith("_")}
        inputs = [self._tensors[ref] for ref in node.inputs]
        try:
            with self._graph.as_default():
                return list(self._graph.create_op(node.op, inputs, types, attrs=attrs).outputs)
        except Exception:  # shapes that do not fit, functions that are not here: whatever it is, it is not known
            return None

    def _evaluate(self, ref: Ref) -> None:
        from tensorflow.python.framework import tensor_util

        tensor = self._tensors[ref]
        size = tensor.shape.num_elements() if tensor.dtype.is_numpy_compatible else None
        if size is not None and size <= LARGEST:
            value = tensor_util.try_evaluate_constant(tensor)
            if value is not None:
                self.know(ref, value)
