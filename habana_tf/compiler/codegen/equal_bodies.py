"""Deduplicates kernels: bodies that differ in their tensors only share code, called with other buffers.

ResNet-50's step has a thousand kernels, three hundred of which are different. Comparing bodies is faster than emitting
code:

    h1 = relu(x0 * w0 + b0)      tensors x0, w0, b0, h1      the same form (`form`): one function,
    h2 = relu(h1 * w1 + b1)      tensors h1, w1, b1, h2      called with either list of buffers
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

from habana_tf.compiler.body import Body
from habana_tf.compiler.code import Code
from habana_tf.compiler.point_values import Apply, Constant, Load, Lookup, PointValue, Position, Result, Size, Within
from habana_tf.ir.primitives import Node


class _Tensors:
    """Numbers tensors in order of first appearance."""

    def __init__(self) -> None:
        self.numbers: dict[Node, int] = {}

    def number(self, node: Node) -> Hashable:
        """A tensor's number, or at its first appearance its properties."""
        if node in self.numbers:
            return self.numbers[node]
        self.numbers[node] = len(self.numbers)
        return node.op, node.dtype, node.shape

    def made(self, node: Node) -> Hashable:
        """A tensor with the primitive that computes it and its sources."""
        sources = tuple((self.number(s), s.dtype, s.shape) for s in node.src)
        return self.number(node), node.op, type(node.arg), node.arg, sources


def form(body: Body) -> tuple[Hashable, list[Node]]:
    """All that code generation depends on, with numbers instead of tensors; and the tensors, by number."""
    tensors = _Tensors()
    operands = tuple((tensors.number(v.base), v.strides, v.offset, v.guards) for v in body.operands)
    core = tensors.made(body.core) if body.core is not None else None
    at = {v: k for k, v in enumerate(body.values)}
    values = tuple(_value(v, at, tensors) for v in body.values)
    stores = tuple((at[s.value], tensors.number(s.target), s.offset) for s in body.stores)
    reductions = tuple((at[r.value], tensors.made(r.node), r.deviations) for r in body.reductions)
    inputs = tuple(at[v] for v in body.inputs)
    overwritten = tuple(tensors.number(n) for n in body.overwritten)
    streamed = tuple(tensors.number(n) for n in body.streamed)
    key = (
        body.domain, body.axes, body.updates, body.invariant, operands, core, values, stores, reductions, inputs,
        overwritten, streamed,
    )  # fmt: skip
    return key, list(tensors.numbers)


def _value(v: PointValue, at: Mapping[PointValue, int], tensors: _Tensors) -> Hashable:
    what: tuple[Hashable, ...]
    match v:
        case Constant():
            what = type(v.number).__name__, repr(v.number)  # -0.0 is not 0.0
        case Size():
            what = (v.extent,)
        case Position():
            what = (v.index,)
        case Load():
            what = tensors.number(v.node), v.offset, v.guard, v.as_stored
        case Lookup():
            what = tensors.number(v.node), tuple(at[c] for c in v.coords), v.axes, v.offset, v.guard
        case Apply():
            what = v.fn, tuple(at[a] for a in v.operands)
        case Within():
            what = v.ranges, at[v.inside], at[v.outside]
        case Result():
            what = ()
        case _:
            raise TypeError(f"{type(v).__name__}: no form for this kind of value")
    return type(v), v.dtype, *what


def with_tensors(code: Code, own: list[Node], others: list[Node]) -> Code:
    """The code of a body for another one of the same form. own, others: their tensors, by number."""
    turned = dict(zip(own, others, strict=True))
    calls = [
        replace(call, buffers=tuple(turned[b] if isinstance(b, Node) else b for b in call.buffers))
        for call in code.calls
    ]
    return replace(code, calls=tuple(calls))
