"""Sums, means, extremes and norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node
from habana_tf.lowering.formula import Term
from habana_tf.torch.ops.row import Call, overload


def _axes(x: Node, dims: Sequence[int] | int | None) -> list[int]:
    """The axes that are reduced: all of them where none is named."""
    if isinstance(dims, int):
        dims = [dims]
    return sorted({d % x.rank for d in dims}) if dims and x.rank else list(range(x.rank))


@overload("sum", "sum.dim_IntList")
def total(c: Call, x: Node, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Node:
    wide = c.term(x)
    return c.b.reshape(c.b.reduce("sum", wide.node, _axes(x, dim)), c.shape)


@overload("mean", "mean.dim", floats=True)
def mean(c: Call, x: Node, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Node:
    axes = _axes(x, dim)
    count = math.prod(int(str(x.shape[a])) for a in axes)
    added = Term(c.b, c.b.reduce("sum", c.term(x).node, axes))
    return c.b.reshape((added / float(count)).node if count else c.b.const(math.nan, DType.F32, c.shape), c.shape)


@overload("amax")
def amax(c: Call, x: Node, dim: Sequence[int] = (), keepdim: bool = False) -> Node:
    return c.b.reshape(c.b.reduce("max", x, _axes(x, dim)), c.shape)


@overload("amin")
def amin(c: Call, x: Node, dim: Sequence[int] = (), keepdim: bool = False) -> Node:
    return c.b.reshape(c.b.reduce("min", x, _axes(x, dim)), c.shape)


@overload("argmax", floats=True)
def argmax(c: Call, x: Node, dim: int | None = None, keepdim: bool = False) -> Node:
    flat = c.b.reshape(x, (x.numel,)) if dim is None or not x.rank else x
    return c.b.reshape(c.b.reduce("argmax", flat, [(dim or 0) % flat.rank]), c.shape)


@overload("linalg_vector_norm", floats=True)
def vector_norm(c: Call, x: Node, ord: float = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Node:
    size, axes = c.term(x).map("abs"), _axes(x, dim)
    if ord == 2:
        made = Term(c.b, c.b.reduce("sum", (size * size).node, axes)).map("sqrt").node
    elif ord == 0:
        made = c.b.reduce("sum", c.b.cast(size.test("ne", 0.0).node, DType.F32), axes)
    elif math.isinf(ord) or ord == 1:
        made = c.b.reduce("sum" if ord == 1 else "max" if ord > 0 else "min", size.node, axes)
    else:
        made = Term(c.b, c.b.reduce("sum", size.pow(float(ord)).node, axes)).pow(1.0 / ord).node
    return c.b.reshape(made, c.shape)
