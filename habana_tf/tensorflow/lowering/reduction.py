"""Reductions over axes, running sums and products, norms.

Sums and products are kept in the accumulator type: float32 for bfloat16, an integer's own type for integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from habana_tf.formulas.ordering import limits
from habana_tf.formulas.term import Term, wrap
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.arguments import axis_of, ints, scalar
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import ALL, FLOATS, INDEX, NUMERIC, op


def _axes(c: Lowering) -> list[int]:
    rank = c.inputs[0].rank
    axes = [axis_of(c, a, rank) for a in ints(c, "reduction_indices")]
    c.require(len(set(axes)) == len(axes), f"reduction axes {axes} name an axis twice")
    return sorted(axes)


def _kept(c: Lowering, x: Node, axes: Sequence[int], out: Node) -> Node:
    """The reduced node, with the axes as size 1 when the op keeps them."""
    if not c.attr("keep_dims"):
        return out
    return c.b.reshape(out, [1 if a in axes else n for a, n in enumerate(x.shape)])


def _reduction(kind: str) -> Callable[[Lowering], Node]:
    def lower(c: Lowering) -> Node:
        axes = _axes(c)
        return _kept(c, c.inputs[0], axes, c.b.reduce(kind, c.inputs[0], axes))

    return lower


for _name, _kind in {"Sum": "sum", "Prod": "prod", "Max": "max", "Min": "min"}.items():
    op(_name, fixed=["reduction_indices"], T=NUMERIC, Tidx=INDEX)(_reduction(_kind))
for _name, _kind in {"All": "min", "Any": "max"}.items():
    op(_name, fixed=["reduction_indices"], Tidx=INDEX)(_reduction(_kind))


@op("Mean", fixed=["reduction_indices"], T=NUMERIC, Tidx=INDEX)
def mean(c: Lowering) -> Node:
    """The sum divided by the count, rounded once; integers are added up in 64 bits, and truncate. NaN over nothing."""
    b, x = c.b, c.inputs[0]
    axes = _axes(c)
    if not axes:
        return x
    count = ext.product(x.shape[a] for a in axes)
    wide = x.dtype.accumulator if x.dtype.is_float or x.dtype.bits == 64 else DType.I64
    total = b.reduce("sum", b.cast(x, wide), axes)
    if not isinstance(count, int):
        out = b.binary("div", total, b.extent(count, total.dtype))
    elif x.dtype.is_float and count:
        out = b.map("mul", total, b.const(1 / count, total.dtype, total.shape))
    else:
        out = b.map("div", total, b.const(count, total.dtype, total.shape))
    return _kept(c, x, axes, b.cast(out, x.dtype))


@op("EuclideanNorm", fixed=["reduction_indices"], T=FLOATS, Tidx=INDEX)
def euclidean_norm(c: Lowering) -> Node:
    x, axes = c.inputs[0], _axes(c)
    v = wrap(c.b, x)
    total = c.b.reduce("sum", (v * v).node, axes)
    return _kept(c, x, axes, wrap(c.b, total).map("sqrt").done(x.dtype))


@op("L2Loss", T=FLOATS)
def l2_loss(c: Lowering) -> Node:
    """Half the sum of the squares."""
    (x,) = c.inputs
    v = wrap(c.b, x)
    total = c.b.reduce("sum", (v * v).node, range(x.rank))
    return (wrap(c.b, total) * 0.5).done(x.dtype)


def _extreme(kind: str) -> Callable[[Lowering], Node]:
    def lower(c: Lowering) -> Node:
        """NaN is passed over; 0 where there is nothing but NaN and the type's farthest number or infinity."""
        x, to = c.inputs[0], c.attr("output_type", DType.I64)
        axis = axis_of(c, scalar(c, "dimension"), x.rank)
        c.require(x.shape[axis] != 0, f"axis {axis} is empty: there is no extreme")
        if x.dtype.is_float:  # TensorFlow begins with position 0 and this number, and takes what is beyond it
            least, greatest = limits(x.dtype)
            worst, beyond = (least, "gt") if kind == "argmax" else (greatest, "lt")
            start = c.b.const(worst, x.dtype, x.shape)
            x = c.b.map("select", c.b.map(beyond, x, start), x, start)
        if to in INDEX:
            return c.b.reduce(kind, x, [axis], to)
        return c.b.cast(c.b.reduce(kind, x, [axis], DType.I32), to)

    return lower


op("ArgMax", fixed=["dimension"], T=ALL, Tidx=INDEX, output_type=(DType.I16, DType.U16, *INDEX))(_extreme("argmax"))
op("ArgMin", fixed=["dimension"], T=ALL, Tidx=INDEX, output_type=INDEX)(_extreme("argmin"))


def _running(kind: str) -> Callable[[Lowering], Node]:
    def lower(c: Lowering) -> Node:
        x = c.inputs[0]
        axis = axis_of(c, scalar(c, "axis"), x.rank)
        return c.b.scan(kind, x, axis, bool(c.attr("exclusive")), bool(c.attr("reverse")))

    return lower


for _name, _kind in {"Cumsum": "sum", "Cumprod": "prod"}.items():
    op(_name, fixed=["axis"], T=NUMERIC, Tidx=INDEX)(_running(_kind))


@op("CumulativeLogsumexp", fixed=["axis"], T=FLOATS, Tidx=INDEX)
def cumulative_log_sum_exp(c: Lowering) -> Node:
    """log of the running sum of exp, each taken relative to the greatest element it sums: n * n terms, none kept."""
    b, x = c.b, c.inputs[0]
    axis = axis_of(c, scalar(c, "axis"), x.rank)
    n = x.shape[axis]
    shape = (*x.shape[: axis + 1], n, *x.shape[axis + 1 :])  # [.., result, summed, ..]
    rest = [k for k in range(x.rank + 1) if k != axis]
    terms = wrap(b, b.broadcast_in_dim(x, shape, rest))
    result, summed = (wrap(b, b.iota(shape, axis + k, DType.I32)) for k in (0, 1))
    after = (summed - result) if not c.attr("reverse") else (result - summed)
    left_out = after.test("ge" if c.attr("exclusive") else "gt", 0)
    nothing = Term(b, b.const(float("-inf"), DType.F32, shape))
    terms = left_out.where(nothing, terms)
    greatest = terms.over("max", [axis + 1])
    base = greatest.map("isfinite").where(greatest, 0)
    total = (terms - base).map("exp").sum([axis + 1]).map("log") + base
    return total.flat([axis + 1]).done(x.dtype)
