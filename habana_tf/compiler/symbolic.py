"""Values that are made of symbolic extents: what a graph computes from its shapes before it runs.

A graph takes the shape of a tensor, picks entries, multiplies some, packs others with constants and reshapes by the
result. Where an extent is a symbol such a value is an array of objects: ints, and `extent.Expr`s. `evaluate` follows
the primitives that shape arithmetic is lowered to; a value that is no expression of extents (a comparison that depends
on the size, a division by a symbol) is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import extent as ext
from .extent import Extent
from .ir import Node, Op

_MOVES = frozenset({Op.RESHAPE, Op.EXPAND, Op.PERMUTE, Op.SLICE, Op.PAD, Op.CONCAT})


def evaluate(node: Node, src: Sequence[Any], rules: Mapping[Op, Callable[..., Any]]) -> Any | None:
    """The value of a node one of whose sources holds symbols, or that is one; None where it is not known.

    rules: the interpreter's rules for primitives that only move elements.
    """
    if not node.dtype.is_int:
        return None
    if node.op is Op.EXTENT:
        return np.array(node.arg, object)
    wide = [s.astype(object) for s in src]
    if node.op in _MOVES:
        return _narrow(rules[node.op](node, *wide), node)
    if node.op is Op.GATHER and src[0].dtype == object and all(s.dtype != object for s in src[1:]):
        return _narrow(rules[node.op](node, *src), node)
    if node.op is Op.REDUCE and node.arg[0] in ("sum", "prod"):
        (kind, axes) = node.arg
        ufunc = np.add if kind == "sum" else np.multiply
        return _narrow(np.asarray(ufunc.reduce(wide[0], axis=axes, dtype=object), object), node)
    if node.op is Op.MAP and node.arg == "cast":
        return wide[0] if node.src[0].dtype.is_int else None
    if node.op is Op.MAP and node.arg == "select" and src[0].dtype == bool:
        return _narrow(np.where(src[0], wide[1], wide[2]), node)
    if node.op is Op.MAP and node.arg in _SCALARS:
        return _mapped(_SCALARS[node.arg], wide, node)
    return None


def _mapped(fn: Callable[[Extent, Extent], Extent | None], src: Sequence[Any], node: Node) -> Any | None:
    out = np.empty(src[0].shape, object)
    for at in np.ndindex(out.shape):
        out[at] = fn(src[0][at], src[1][at])
        if out[at] is None:
            return None
    return _narrow(out, node)


def _narrow(value: Any, node: Node) -> Any:
    """Numbers of the node's type again, where no symbol is left."""
    value = np.asarray(value)
    return value.astype(node.dtype.numpy) if all(isinstance(v, int) for v in value.reshape(-1)) else value


def _quotient(a: Extent, b: Extent) -> Extent | None:
    exact = ext.divide(a, b)
    if exact is None and isinstance(b, int) and b > 0 and ext.bounds(a)[0] >= 0:
        return ext.div(a, b)
    return exact


def _remainder(a: Extent, b: Extent) -> Extent | None:
    if ext.divide(a, b) is not None:
        return 0
    return ext.mod(a, b) if isinstance(b, int) and b > 0 and ext.bounds(a)[0] >= 0 else None


def _larger(a: Extent, b: Extent) -> Extent | None:
    low, high = ext.bounds(ext.add(a, ext.mul(b, -1)))
    return a if low >= 0 else b if high is not None and high <= 0 else None


def _smaller(a: Extent, b: Extent) -> Extent | None:
    larger = _larger(a, b)
    return None if larger is None else b if larger is a else a


_SCALARS: dict[str, Callable[[Extent, Extent], Extent | None]] = {
    "add": ext.add,
    "sub": lambda a, b: ext.add(a, ext.mul(b, -1)),
    "mul": ext.mul,
    "div": _quotient,
    "floordiv": _quotient,
    "floormod": _remainder,
    "truncmod": _remainder,
    "max": _larger,
    "min": _smaller,
}
