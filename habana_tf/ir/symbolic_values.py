"""Symbolic evaluation of shape arithmetic: small integer tensors whose elements are extents.

A graph takes the shape of a tensor, picks and multiplies entries, packs them with constants and reshapes by the result.
With symbolic extents such a value is an array of objects, ints and `extent.Expr`s, and `evaluate` applies a primitive
to it. Comparisons depend on the sizes and are decided by `Premises`. A value that is no expression of extents (a
division by a symbol) is unknown, None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from habana_tf.ir import extent as ext
from habana_tf.ir.conditions import NeedsNumber, Premises
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import COMPARE, Node, Op

_DATA_MOVEMENT = frozenset({Op.RESHAPE, Op.EXPAND, Op.PERMUTE, Op.SLICE, Op.PAD, Op.CONCAT})


def evaluate(
    node: Node, src: Sequence[Any], rules: Mapping[Op, Callable[..., Any]], premises: Premises | None = None
) -> Any | None:
    """The value of a node that is an extent or has a symbolic source; None if it is unknown.

    rules: the interpreter's, for primitives that only move elements. premises: decide comparisons; without them those
    that depend on sizes are unknown.
    """
    compared = node.op is Op.MAP and node.arg in COMPARE and node.src[0].dtype.is_int
    if not node.dtype.is_int and not compared:
        return None
    if node.op is Op.EXTENT:
        return np.array(node.arg, object)
    wide = [s.astype(object) for s in src]
    if node.op in _DATA_MOVEMENT:
        return _narrow(rules[node.op](node, *wide), node)
    if node.op is Op.GATHER and src[0].dtype == object and all(s.dtype != object for s in src[1:]):
        return _narrow(rules[node.op](node, *src), node)
    if node.op is Op.REDUCE and node.arg[0] in ("sum", "prod"):
        (kind, axes) = node.arg
        ufunc = np.add if kind == "sum" else np.multiply
        return _narrow(np.asarray(ufunc.reduce(wide[0], axis=axes, dtype=object), object), node)
    if node.op is Op.MAP and node.arg == "cast":
        return wide[0] if node.src[0].dtype.is_int else None
    if node.op is Op.MAP and node.arg == "neg":
        return _narrow(wide[0] * -1, node)
    if node.op is Op.MAP and node.arg == "select" and src[0].dtype == bool:
        return _narrow(np.where(src[0], wide[1], wide[2]), node)
    if node.op is Op.REDUCE and node.arg[0] in ("max", "min") and len(node.arg[1]) == node.src[0].rank:
        decide = _Decisions(premises)
        out: Extent | None = wide[0].reshape(-1)[0]
        for n in wide[0].reshape(-1)[1:].tolist():
            out = None if out is None else decide.scalars[node.arg[0]](out, n)
        return None if out is None else _narrow(np.array(out, object), node)
    if node.op is Op.MAP and (fn := _Decisions(premises).scalars.get(node.arg)) is not None:
        return _elementwise(fn, wide, node)
    return None


def _elementwise(fn: Callable[[Extent, Extent], Extent | None], src: Sequence[Any], node: Node) -> Any | None:
    out = np.empty(src[0].shape, object)
    for at in np.ndindex(out.shape):
        out[at] = fn(src[0][at], src[1][at])
        if out[at] is None:
            return None
    return _narrow(out, node)


def _narrow(value: Any, node: Node) -> Any:
    """An array of the node's own type, if no symbol is left."""
    value = np.asarray(value)
    return value.astype(node.dtype.numpy) if all(isinstance(v, int) for v in value.reshape(-1)) else value


class _Decisions:
    """Arithmetic and comparisons of extents; None where the result is unknown."""

    def __init__(self, premises: Premises | None) -> None:
        self.premises = premises or Premises()
        self.scalars: dict[Any, Callable[[Extent, Extent], Extent | None]] = {
            "add": ext.add,
            "sub": lambda a, b: ext.add(a, ext.mul(b, -1)),
            "mul": ext.mul,
            "div": self._truncated,
            "floordiv": _quotient,
            "floormod": _remainder,
            "truncmod": lambda a, b: _remainder(a, b) if self._at_least(a, 0) else None,
            "max": lambda a, b: self._decide(self.premises.largest, a, b),
            "min": lambda a, b: self._decide(self.premises.smallest, a, b),
            "ge": self._at_least,
            "gt": lambda a, b: self._at_least(a, ext.add(b, 1)),
            "le": lambda a, b: self._at_least(b, a),
            "lt": lambda a, b: self._at_least(b, ext.add(a, 1)),
            "eq": self._equal,
            "ne": lambda a, b: None if (same := self._equal(a, b)) is None else not same,
        }

    @staticmethod
    def _decide(question: Callable[[Extent, Extent], Any], a: Extent, b: Extent) -> Any | None:
        try:
            return question(a, b)
        except NeedsNumber:
            return None

    def _at_least(self, a: Extent, b: Extent) -> bool | None:
        return self._decide(self.premises.at_least, a, b)

    def _equal(self, a: Extent, b: Extent) -> bool | None:
        return self._decide(self.premises.equal, a, b)

    def _truncated(self, a: Extent, b: Extent) -> Extent | None:
        exact = ext.divide(a, b)
        return exact if exact is not None else _quotient(a, b) if self._at_least(a, 0) else None


def _quotient(a: Extent, b: Extent) -> Extent | None:
    exact = ext.divide(a, b)
    return ext.div(a, b) if exact is None and isinstance(b, int) and b > 0 else exact


def _remainder(a: Extent, b: Extent) -> Extent | None:
    if ext.divide(a, b) is not None:
        return 0
    return ext.mod(a, b) if isinstance(b, int) and b > 0 else None
