"""Keeps each list of tensors on one device, so that a loop does not copy it in every iteration.

What: 1. The gradient of a loop that reads an element of a list adds two lists, one of which holds only the gradient of
that element. TensorFlow has AddN on lists for the CPU only. It becomes a read, a sum and a write of the one element,
all of which run on HPU. 2. A list of an element type that TensorFlow's list kernels for any device lack (bool, mostly:
masks of recurrent layers) is moved to the CPU as a whole, with the loop's own nodes that carry it. Its elements are
copied one by one.

Why: for an op on the CPU in a loop whose list is on HPU, TensorFlow copies the whole list there and back in each
iteration: the time of a step grew with the square of the sequence.

Invariants: an element that was never written counts as zeros, as in AddN (TensorFlow must know its shape from the list
or from another element). A list that enters or leaves a function is copied there, once.

    AddN(sum, SetItem(Reserve(n), i, g))      ->      SetItem(sum, i, GetItem(sum, i) + g)
"""

from __future__ import annotations

from habana_tf.tensorflow.graph.ops import CONTROL_FLOW, VARIANT, attr, device_type, has_kernel, on_cpu, output_types
from habana_tf.tensorflow.graph.placement import Placement
from habana_tf.tensorflow.graph.view import Node, Ref, View, reached

_CARRIERS = CONTROL_FLOW | {"Identity"}
_FLOAT, _BFLOAT16 = 1, 14


def stay(view: View, placement: Placement) -> None:
    """Rewrites the sums of lists, then moves the lists that HPU cannot hold."""
    lists = [n for n in view.nodes if _is_list_op(n)]
    if not lists:
        return
    consumers = view.consumers()
    for node in lists:
        if node.op == "AddN" and node.name not in view.preserved:
            _add(view, placement, node, consumers)
    _settle(view, placement, [n for n in lists if n.alive])


def _is_list_op(node: Node) -> bool:
    if node.op in ("AddN", "ZerosLike"):
        return attr(node, "T").type == VARIANT
    return node.op.startswith("TensorList") or node.op == "EmptyTensorList"


# --- sums ---


def _add(view: View, placement: Placement, node: Node, consumers: dict[Node, list[Node]]) -> None:
    """Replaces an AddN whose inputs are one list and lists of one element each."""
    bases = [ref for ref in node.inputs if not _one_element(ref[0], view, consumers)]
    singles = [ref[0] for ref in node.inputs if ref not in bases]
    if len(bases) != 1 or not singles:
        return
    total: Ref = bases[0]
    for single in singles:
        total = (_add_one(view, single, total), 0)
    for source in node.controls:
        total[0].add_control(source)
    for consumer in consumers[node]:
        consumer.inputs = [total if n is node else (n, k) for n, k in consumer.inputs]
        consumer.controls = list(dict.fromkeys(total[0] if n is node else n for n in consumer.controls))
        consumers[total[0]].append(consumer)
    view.remove(node)
    placement.reasons.pop(node, None)


def _one_element(node: Node, view: View, consumers: dict[Node, list[Node]]) -> bool:
    """Whether a node makes a list with one written element, for one reader."""
    return (
        node.op == "TensorListSetItem"
        and node.inputs[0][0].op == "TensorListReserve"
        and len(consumers[node]) == 1
        and node.name not in view.preserved
        and device_type(node.device) == "HPU"
        and attr(node, "element_dtype").type in (_FLOAT, _BFLOAT16)
        and not attr(node, "resize_if_index_out_of_bounds").b
    )


def _add_one(view: View, single: Node, total: Ref) -> Node:
    """Turns the write of an element into an empty list to its addition to the list `total`."""
    reserve, index, item = single.inputs
    dtype = attr(single, "element_dtype").type
    shape = reserve[0].inputs[0]
    old = view.add(f"{single.name}/old", "TensorListGetItem", single.device, [total, index, shape], element_dtype=dtype)
    new = view.add(f"{single.name}/add", "AddV2", single.device, [(old, 0), item], T=dtype)
    for source in reserve[0].controls:
        single.add_control(source)
    single.inputs = [total, index, (new, 0)]
    return single


# --- lists that HPU cannot hold ---


def _settle(view: View, placement: Placement, lists: list[Node]) -> None:
    lost = {n for n in lists if "element_dtype" in n.proto.attr
            and not (has_kernel(n, "DEFAULT") or has_kernel(n, "HPU"))}  # fmt: skip
    if not lost:
        return
    for node in _connected(view, lists, lost):
        if device_type(node.device) == "HPU" and (has_kernel(node, "CPU") or has_kernel(node, "DEFAULT")):
            node.device = on_cpu(node.device)
            placement.moved += 1
        for at, (source, _) in enumerate(node.inputs):
            if source.op == "Const" and not source.inputs and device_type(source.device) == "HPU":
                node.inputs[at] = (_copy(view, source, node), 0)


def _copy(view: View, source: Node, user: Node) -> Node:
    """The constant where its user is. In a loop it is the user's list that holds it there."""
    made = view.add(f"{source.name}/cpu", "Const", user.device)
    made.proto.attr["dtype"].CopyFrom(source.proto.attr["dtype"])
    made.proto.attr["value"].CopyFrom(source.proto.attr["value"])
    made.controls = [user.inputs[0][0]] if source.controls and user.inputs[0][0] is not source else source.controls
    return made


def _connected(view: View, lists: list[Node], start: set[Node]) -> list[Node]:
    """The list ops and the nodes that carry lists, connected with those in `start`, in the graph's order."""
    members = set(lists) | {n for n in view.alive() if n.op in _CARRIERS and VARIANT in output_types(n)}
    beside: dict[Node, list[Node]] = {n: [] for n in members}
    for node in members:
        for source, output in node.inputs:
            if source in members and output_types(source)[output] == VARIANT:
                beside[node].append(source)
                beside[source].append(node)
    seen = reached(start, beside.__getitem__)
    return [n for n in view.alive() if n in seen]
