"""Sums, means, extremes and norms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from habana_tf.formulas.term import Term
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, Lower, overload


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
    wide = c.term(x)
    count, added = wide.count(axes), Term(c.b, c.b.reduce("sum", wide.node, axes))
    return c.b.reshape((added / count).node if count != 0 else c.b.const(math.nan, DType.F32, c.shape), c.shape)


def _plain(c: Call, x: Node) -> Node:
    """What to order instead of booleans."""
    return c.b.cast(x, DType.U8) if x.dtype is DType.BOOL else x


def _extreme(kind: str) -> Callable[..., Node]:
    def lower(c: Call, x: Node, dim: Any = None, keepdim: bool = False) -> Node:
        return c.b.reshape(c.b.reduce(kind, _plain(c, x), _axes(x, dim)), c.shape)

    return lower


overload("amax", "max")(_extreme("max"))
overload("amin", "min")(_extreme("min"))


overload("aminmax")(lambda c, x, *, dim=None, keepdim=False: [_extreme(kind)(c, x, dim) for kind in ("min", "max")])


def _place(kind: str) -> Lower:
    def lower(c: Call, x: Node, dim: int | None = None, keepdim: bool = False) -> Node:
        x = _plain(c, x)
        if dim is None or not x.rank:
            return c.b.reshape(c.b.reduce(kind, c.b.reshape(x, (x.numel,)), [0]), c.shape)
        return c.b.reshape(c.b.reduce(kind, x, [dim % x.rank]), c.shape)

    return lower


overload("argmax")(_place("argmax"))
overload("argmin")(_place("argmin"))


@overload("prod", "prod.dim_int")
def product(c: Call, x: Node, dim: int | None = None, keepdim: bool = False, dtype: Any = None) -> Node:
    return c.b.reshape(c.b.reduce("prod", c.term(x).node, _axes(x, dim)), c.shape)


def _truth(kind: str) -> Lower:
    def lower(c: Call, x: Node, dim: Any = None, keepdim: bool = False) -> Node:
        axes = list(range(x.rank)) if dim is None else _axes(x, dim)
        return c.b.reshape(c.b.reduce(kind, c.b.cast(x, DType.BOOL), axes), c.shape)

    return lower


overload("any", "any.dim", "any.dims")(_truth("max"))
overload("all", "all.dim", "all.dims")(_truth("min"))


@overload("count_nonzero", "count_nonzero.dim_IntList")
def count_nonzero(c: Call, x: Node, dim: Any = None) -> Node:
    found = c.b.cast(c.b.cast(x, DType.BOOL), DType.I64)
    return c.b.reshape(c.b.reduce("sum", found, _axes(x, dim)), c.shape)


@overload("nansum")
def nansum(c: Call, x: Node, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Node:
    t = c.term(x)
    if t.node.dtype.is_float:
        t = t.test("ne", t).where(0, t)
    return c.b.reshape(c.b.reduce("sum", t.node, _axes(x, dim)), c.shape)


@overload("logsumexp", floats=True)
def logsumexp(c: Call, x: Node, dim: Any, keepdim: bool = False) -> Node:
    """From the greatest element, where that is finite."""
    t, axes = c.term(x), _axes(x, dim)
    if not x.rank:
        return t.node
    if 0 in x.shape:
        return c.b.const(-math.inf, DType.F32, c.shape)
    greatest = t.over("max", axes)
    base = greatest.map("abs").test("eq", math.inf).where(0, greatest)
    return c.b.reshape(((t - base).map("exp").sum(axes).map("log") + base).node, c.shape)


def _moments(c: Call, x: Node, dim: Any, correction: float | None) -> tuple[Node, Node]:
    """Variance and mean, in two passes, without the axes that they are taken over."""
    t, axes = c.term(x), _axes(x, dim)
    count = t.count(axes)
    if count == 0:
        nothing = c.b.const(math.nan, DType.F32, c.shape)
        return nothing, nothing
    mean = t.sum(axes) / count if axes else t
    away = t - mean
    freedom = count - float(1 if correction is None else correction)
    freedom = freedom.max(0.0) if isinstance(freedom, Term) else max(freedom, 0.0)
    squares = c.b.reshape(c.b.reduce("sum", (away * away).node, axes), c.shape)
    return (Term(c.b, squares) / freedom).node, c.b.reshape(mean.node, c.shape)


def _spread(root: bool, with_mean: bool) -> Lower:
    def lower(
        c: Call, x: Node, dim: Any = None, *, correction: float | None = None, keepdim: bool = False
    ) -> Node | Sequence[Node]:
        variance, mean = _moments(c, x, dim, correction)
        made = c.b.map("sqrt", variance) if root else variance
        return [made, mean] if with_mean else made

    return lower


for _name, _root in {"var": False, "std": True}.items():
    overload(f"{_name}.correction", floats=True)(_spread(_root, False))
    overload(f"{_name}_mean.correction", floats=True)(_spread(_root, True))


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


@overload("histc", mixed=True)
def histogram(c: Call, x: Node, bins: int = 100, min: float = 0, max: float = 0) -> Node:
    """How many elements are in each of `bins` equal parts of [min, max]; the last has both of its ends."""
    if x.dtype is DType.BOOL or not -math.inf < min < max < math.inf:
        raise c.refused("booleans, or a range that is the data's own,")
    b = c.b
    t = Term(b, b.reshape(c.term(x).node, (x.numel,)))
    part = (t - min) * bins / (max - min)
    if x.dtype.is_float:
        part = part.map("floor")
    inside = Term(b, b.binary("and", t.test("ge", min).node, t.test("le", max).node))
    places = b.cast(inside.where(part.min(bins - 1), bins).node, DType.I64)  # those outside go nowhere
    ones = b.const(1, DType.I64, (x.numel,))
    return b.cast(b.scatter(b.const(0, DType.I64, (bins,)), ones, [places], [0], "add"), c.dtype)
