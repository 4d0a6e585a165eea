"""The shapes of the elements of tensor lists: of what is put in, for what is taken out.

A loop that the host runs keeps the values that its gradient needs in lists, and TensorFlow's inference forgets their
elements' shapes on the way from one loop to the other.

    EmptyTensorList -> [loop: PushBack(list, h (8, 32))] -> [gradient's loop: PopBack(list)] -> (8, 32)
"""

from __future__ import annotations

from collections.abc import Callable

from habana_tf.tensorflow.graph.shapes import Shape
from habana_tf.tensorflow.graph.view import Node, Ref, behind

PASSED_ON = (
    *"Enter Exit Merge Switch NextIteration Identity".split(),
    *"TensorListPushBack TensorListPopBack TensorListSetItem TensorListResize".split(),
)
"""Ops whose first result is their first argument's list; of a loop's Merge the first is what the loop begins with."""
PUT = {"TensorListPushBack": 1, "TensorListSetItem": 2}
"""Which argument is the element."""
TAKEN = {"TensorListPopBack": 1, "TensorListGetItem": 0}
"""Which result is the element."""


class ListElements:
    """shape: of a tensor, None if it is not known."""

    def __init__(self, shape: Callable[[Ref], Shape | None]) -> None:
        self._shape = shape
        self._elements: dict[Ref, Shape] = {}

    def passed(self, node: Node) -> None:
        """Remembers what a node puts into a list."""
        whole = node.op == "TensorListFromTensor"
        if whole or node.op in PUT:
            shape = self._shape(node.inputs[0 if whole else PUT[node.op]])
            if shape is not None:
                self._elements.setdefault(behind((node, 0), PASSED_ON), shape[1:] if whole else shape)

    def taken(self, node: Node, output: int) -> Shape | None:
        """The shape of an element that a node takes out of a list."""
        if TAKEN.get(node.op) != output:
            return None
        return self._elements.get(behind(node.inputs[0], PASSED_ON))
