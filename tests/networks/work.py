"""The multiply-adds of a training step, from the shapes in its traced graph, and how many of them HPU does.

Counted are contractions: they are nearly all the floating-point work of a network. The trace is TensorFlow's, before
any placement or optimization, so nothing is left out that a later pass moves or loses; the functions that a step calls
(Keras 2.15 keeps LSTM and GRU in some, and loops have theirs) count once each.

What HPU does follows from the launches that were made: of each kind of op, as many as stand in launches, the cheapest
first. So the share is a lower bound: an op that became another one on its way counts as the CPU's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any


def contractions(function: Any, batch: int) -> dict[str, list[int]]:
    """Per kind of op, the multiply-adds of each op of a ConcreteFunction and of all functions it calls.

    batch: what an extent counts as that the trace does not know; only gradients of loops have such.
    Raises ValueError for an op of which a rank is not known.
    """
    out: dict[str, list[int]] = {}
    for graph in _graphs(function.graph):
        for op in _needed(graph):
            if op.type in MULTIPLY_ADDS:
                out.setdefault(op.type, []).append(_count(op, batch))
    return out


def on_hpu(work: dict[str, list[int]], launched: dict[str, int]) -> int:
    """The multiply-adds that HPU does for certain. launched: how many ops of each kind stand in launches."""
    return sum(sum(sorted(each)[: launched.get(kind, 0)]) for kind, each in work.items())


def _graphs(graph: Any) -> Iterator[Any]:
    """A graph and the bodies of the functions that are called from it, each once."""
    from tensorflow.python.framework import function_def_to_graph

    yield graph
    library = {f.signature.name: f for f in graph.as_graph_def().library.function}
    called: list[str] = []
    nodes = [op.node_def for op in graph.get_operations()]
    while nodes:
        functions = (f for n in nodes for v in n.attr.values() for f in (v.func, *v.list.func) if f.name)
        new = list(dict.fromkeys(f.name for f in functions if f.name not in called))
        called += new
        nodes = [node for name in new for node in library[name].node_def]
    with graph.as_default():
        for name in called:
            yield function_def_to_graph.function_def_to_graph(library[name])


def _needed(graph: Any) -> list[Any]:
    """The ops that a result or an effect depends on: a traced gradient also has those of the images."""
    stack = [*(t.op for t in graph.outputs), *(op for op in graph.get_operations() if op.op_def.is_stateful)]
    seen = set(stack)
    while stack:
        op = stack.pop()
        for source in (*(t.op for t in op.inputs), *op.control_inputs):
            if source not in seen:
                seen.add(source)
                stack.append(source)
    return [op for op in graph.get_operations() if op in seen]


def _count(op: Any, batch: int) -> int:
    shapes = [t.shape for t in (*op.inputs, *op.outputs)]
    if op.type == "MatMul":
        shapes = [shape.with_rank(2) for shape in shapes]  # what a loop's gradient takes from lists has none
    if any(shape.rank is None for shape in shapes):
        raise ValueError(f"{op.type} {op.name!r}: its work cannot be counted from the shapes {shapes}")
    return MULTIPLY_ADDS[op.type](op, *([batch if n is None else n for n in shape] for shape in shapes))


Shape = list[int]


def _matrices(op: Any, a: Shape, b: Shape, out: Shape) -> int:
    """The results times the extent that is summed over."""
    transposed = op.get_attr("transpose_b" if op.type == "MatMul" else "adj_y")
    return math.prod(out) * b[-1 if transposed else -2]


def _einsum(op: Any, *shapes: Shape) -> int:
    """The product of the extents of all labels."""
    labels = op.get_attr("equation").decode().replace("->", ",").split(",")
    extents: dict[Any, int] = {}
    for label, shape in zip(labels, shapes, strict=True):
        before, dots, after = label.partition("...")
        many = len(shape) - len(before) - len(after) if dots else 0
        names = [*before, *range(-many, 0), *after]  # of an ellipsis, axes count from its end
        extents.update((k, max(n, extents.get(k, 1))) for k, n in zip(names, shape, strict=True))
    return math.prod(extents.values())


def _window(kind: str, filters: Shape, results: Shape) -> int:
    """The results of the forward convolution, each a sum over the window (and over the channels of its group)."""
    return math.prod(results) * math.prod(filters[:-2] if kind.startswith("Depthwise") else filters[:-1])


MULTIPLY_ADDS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _matrices),
    "Einsum": _einsum,
}
for _kind in ("Conv2D", "Conv3D", "DepthwiseConv2dNative"):
    _version = "V2" if _kind == "Conv3D" else ""
    MULTIPLY_ADDS |= {
        _kind: lambda op, _, filters, out: _window(op.type, filters, out),
        f"{_kind}BackpropInput{_version}": lambda op, _, filters, grad, __: _window(op.type, filters, grad),
        f"{_kind}BackpropFilter{_version}": lambda op, _, __, grad, out: _window(op.type, out, grad),
    }
"""Per op, from the shapes of its inputs and outputs."""
