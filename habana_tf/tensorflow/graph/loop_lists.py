"""The tensor lists that a loop carries, by how its body uses them, and the tensors that replace them.

same    it is only read
push    every iteration adds one element at the end of an empty list
pop     every iteration takes the last element
set     every iteration writes one element, and none is read
list    elements are read and written
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from habana_tf.tensorflow.clusters.loop_form import LoopSlot
from habana_tf.tensorflow.graph.ops import FORWARDING, attr, output_types
from habana_tf.tensorflow.graph.view import Node, Ref, View, behind

LIST_READS = frozenset({
    "TensorListGetItem", "TensorListSetItem", "TensorListPushBack", "TensorListPopBack", "TensorListLength",
    "TensorListElementShape",
})  # fmt: skip
"""Ops on lists that a loop that is a node may have."""
_ASKS = frozenset({"TensorListGetItem", "TensorListLength", "TensorListElementShape"})
_INT32 = 3


class Lists:
    """The list variables of a loop with this body. resolve: see `LoopFrame.resolve`."""

    def __init__(self, body: list[Node], resolve: Callable[[Ref], Ref]) -> None:
        self._resolve = resolve
        self._uses: dict[Ref, list[Node]] = {}
        for node in body:
            if node.op in LIST_READS:
                self._uses.setdefault(resolve(node.inputs[0]), []).append(node)
        self._element: dict[int, int] = {}
        self._kinds: dict[int, str] = {}
        self._given: dict[int, Node] = {}
        self._only_written: set[Node] = set()
        self.positions = [n.inputs[1] for n in body if n.op in ("TensorListGetItem", "TensorListSetItem")]

    def slot(self, k: int, enter: Node, next_: Ref | None, exit_: Node | None) -> LoopSlot | None:
        """What variable `k` is; None if it is no list that can be a tensor. next_, exit_: as in `LoopVariable`."""
        uses = self._all_uses((enter, 0), next_)
        if not uses:
            return LoopSlot("unused") if next_ is None else None
        origin = behind(enter.inputs[0], ("Identity",))[0]
        typed = [n for n in (*uses, origin) if "element_dtype" in n.proto.attr]
        if not typed:
            return None
        kind = self._kind(uses, origin, next_, exit_)
        if kind is None or (kind not in ("push", "set") and not _one_shape(origin, uses)):
            return None
        self._given[k], self._kinds[k] = origin, kind
        self._element[k] = int(attr(typed[0], "element_dtype").type)
        return LoopSlot(kind)

    def _kind(self, uses: list[Node], origin: Node, next_: Ref | None, exit_: Node | None) -> str | None:
        kinds = {n.op for n in uses}
        if kinds <= _ASKS and next_ is None:
            return "same"
        if next_ is None:
            return None
        if kinds == {"TensorListPushBack"}:
            return "push" if len(uses) == 1 and origin.op == "EmptyTensorList" else None
        if kinds == {"TensorListPopBack"}:
            taken = len(uses) == 1 and exit_ is None and self._resolve(next_) == (uses[0], 0)
            return "pop" if taken else None
        resizes = [n for n in uses if "resize_if_index_out_of_bounds" in n.proto.attr]
        if not kinds <= _ASKS | {"TensorListSetItem"} or any(
            attr(n, "resize_if_index_out_of_bounds").b for n in resizes
        ):
            return None
        if len(uses) == 1 and origin.op == "TensorListReserve":
            self._only_written.add(uses[0])
            return "set"
        if origin.op == "EmptyTensorList" or (origin.op == "TensorListReserve" and not _whole_shape(origin)):
            return None
        return "list"

    def _all_uses(self, enter: Ref, next_: Ref | None) -> list[Node] | None:
        """All ops on a list and on what they make of it; None if there is another way that it goes."""
        out: list[Node] = []
        versions = [enter]
        for ref in versions:
            for node in self._uses.get(ref, ()):
                out.append(node)
                if node.op in ("TensorListSetItem", "TensorListPushBack", "TensorListPopBack"):
                    versions.append((node, 0))
        return out if next_ is None or self._resolve(next_) in versions else None

    def only_written(self, node: Node) -> bool:
        """Whether a node is the write of a list of kind `set`."""
        return node in self._only_written

    def element(self, k: int) -> int:
        """TensorFlow's type number of a list's elements."""
        return self._element[k]

    def tensor(self, view: View, k: int, given: Ref) -> Ref | None:
        """The tensor that a list is when the loop begins; None where it has no elements then, or is never read."""
        if self._kinds.get(k, "set") in ("push", "set"):
            return None
        origin = self._given[k]
        whole = behind((origin, 0), ("ZerosLike", "Identity"))[0]
        if whole.op == "TensorListFromTensor":
            if whole is origin:
                return whole.inputs[0]
            # the gradient of a list begins as zeros
            zeros = view.add(f"{origin.name}/zeros", "ZerosLike", origin.device, whole.inputs[:1], T=self._element[k])
            return zeros, 0
        dtype = self._element[k]
        stack = view.add(f"{given[0].name}/stack", "TensorListStack", given[0].device, [given], element_dtype=dtype)
        stack.proto.attr["num_elements"].i = -1
        shape = origin.inputs[0] if origin.op == "TensorListReserve" else (_any_shape(view, stack), 0)
        stack.inputs.append(shape)
        return stack, 0

    def count(self, k: int) -> Ref:
        """How many elements a list of kind `set` has."""
        return self._given[k].inputs[1]

    def back(self, view: View, k: int, made: Ref) -> Ref:
        """The list of a tensor that the loop has made."""
        origin = self._given[k]
        dtype = self._element[k]
        node = view.add(f"{made[0].name}/list", "TensorListFromTensor", origin.device, [made], element_dtype=dtype)
        shaped = origin.op in ("EmptyTensorList", "TensorListReserve", "TensorListFromTensor")
        if shaped:
            shape = origin.inputs[1 if origin.op == "TensorListFromTensor" else 0]
            node.proto.attr["shape_type"].type = output_types(shape[0])[shape[1]]
        else:
            shape = (_any_shape(view, node), 0)
            node.proto.attr["shape_type"].type = _INT32
        node.inputs.append(shape)
        return node, 0


def makes_list(node: Node) -> bool:
    """Whether all that a node does is to make a list, or to pass one on."""
    return node.op.startswith("TensorList") or node.op in ("EmptyTensorList", "Identity", "ZerosLike")


def _one_shape(origin: Node, uses: list[Node]) -> bool:
    """Whether all elements of a list that a loop is given have one shape.

    They have where they are parts of a tensor, or another function gave them (a layer of Keras': what its loop keeps
    for the gradient). Another loop that stays one may have put tensors of any shape in it.
    """
    origin = behind((origin, 0), ("ZerosLike", "Identity"))[0]
    if origin.op in ("TensorListFromTensor", "TensorListReserve", "_Arg"):
        return True
    shapes = {"TensorListGetItem": 2, "TensorListPopBack": 1}
    return any(_whole_shape(n, shapes[n.op]) for n in uses if n.op in shapes)


def _whole_shape(node: Node, at: int = 0) -> bool:
    """Whether the shape of elements that an input says is known as a whole."""
    source = behind(node.inputs[at], FORWARDING)[0]
    if source.op != "Const":
        return False
    from tensorflow.python.framework import tensor_util

    shape = tensor_util.MakeNdarray(attr(source, "value").tensor)
    return bool(shape.ndim == 1 and (shape >= 0).all())


def _any_shape(view: View, user: Node) -> Node:
    """The constant that says nothing of the shape of elements."""
    return view.constant(f"{user.name}/shape", np.int32(-1), user.device)
