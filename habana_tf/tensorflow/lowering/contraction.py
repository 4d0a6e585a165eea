"""Rows of matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from habana_tf.formulas.products import product
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import FLOATS, op


def _matmul(c: Lowering, a: Node, b: Node, transpose_a: bool, transpose_b: bool, dtype: DType | None = None) -> Node:
    c.require(a.rank >= 2 and b.rank >= 2, "both operands must be matrices")
    m, k, n = 0, 1, 2
    la, lb = (k, m) if transpose_a else (m, k), (n, k) if transpose_b else (k, n)
    if a.shape[la.index(k) - 2] != b.shape[lb.index(k) - 2]:
        raise c.error("columns of the first operand and rows of the second must be as many")
    batch = range(3, 3 + max(a.rank, b.rank) - 2)
    first, second = batch[len(batch) - a.rank + 2 :], batch[len(batch) - b.rank + 2 :]
    return product(c.b, a, b, (*first, *la), (*second, *lb), (*batch, m, n), batch, dtype)


@op("MatMul", T=FLOATS)
def matmul(c: Lowering) -> Node:
    a, b = c.inputs
    c.require(a.rank == 2 and b.rank == 2, "both operands must be matrices")
    return _matmul(c, a, b, c.attr("transpose_a", False), c.attr("transpose_b", False))


@op("BatchMatMul", "BatchMatMulV2", T=FLOATS)
def batch_matmul(c: Lowering) -> Node:
    a, b = c.inputs
    c.require(c.op != "BatchMatMul" or a.shape[:-2] == b.shape[:-2], "both operands must be as many matrices")
    return _matmul(c, a, b, c.attr("adj_x", False), c.attr("adj_y", False))


@op("BatchMatMulV3", Ta=FLOATS, Tb=FLOATS, Tout=FLOATS)
def batch_matmul_v3(c: Lowering) -> Node:
    a, b = c.inputs
    if a.dtype is not b.dtype:
        a, b = (c.b.cast(x, x.dtype.accumulator) for x in (a, b))
    return _matmul(c, a, b, c.attr("adj_x", False), c.attr("adj_y", False), c.attr("Tout"))


@op("Einsum", T=FLOATS)
def einsum(c: Lowering) -> Node:
    """One or two operands; an ellipsis stands for broadcast axes, a repeated label for a diagonal."""
    left, arrow, result = c.attr("equation").replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow or len(terms) != len(c.inputs) or len(terms) > 2:
        raise c.error(f"equation {c.attr('equation')!r} must have one or two operands and a result")
    hidden = [x.rank - len(t.replace("...", "")) for t, x in zip(terms, c.inputs, strict=True) if "..." in t]
    dots = max(hidden, default=0)
    if dots > 0 and "..." not in result:
        raise c.error(f"the result of {c.attr('equation')!r} must have an ellipsis, as the operands have")

    def labels(term: str, rank: int) -> tuple[int, ...]:
        before, ellipsis, after = term.partition("...")
        n = rank - len(before) - len(after) if ellipsis else 0
        out = (*map(ord, before), *range(dots - n, dots), *map(ord, after))
        c.require(len(out) == rank, f"term {term!r} of the equation does not fit rank {rank}")
        return out

    dtype = c.inputs[0].dtype
    taken = [_diagonal(c, x, labels(t, x.rank)) for t, x in zip(terms, c.inputs, strict=True)]
    operands, found = [x for x, _ in taken], [f for _, f in taken]
    wanted = labels(result, len(result.replace("...", "")) + (dots if "..." in result else 0))
    out = tuple(dict.fromkeys(wanted))
    c.require(set(out) <= {*chain(*found)}, f"the result of {c.attr('equation')!r} has a label that no operand has")
    for i in range(len(operands)):  # labels of one operand alone are summed before the product, not yet rounded
        needed = {*out, *chain(*(f for j, f in enumerate(found) if j != i))}
        alone = [k for k, label in enumerate(found[i]) if label not in needed]
        if alone:
            operands = [c.b.cast(x, dtype.accumulator) for x in operands]
            operands[i] = c.b.reduce("sum", operands[i], alone)
            found[i] = tuple(label for label in found[i] if label in needed)
    if len(operands) == 1:
        value = c.b.permute(operands[0], [found[0].index(label) for label in out])
    else:
        value = product(c.b, operands[0], operands[1], found[0], found[1], out, range(dots))
    return _inflated(c, c.b.cast(value, dtype), out, wanted)


def _known(c: Lowering, sizes: Sequence[Extent]) -> int:
    """The size of the axes of a repeated label."""
    (n,) = {*sizes} if len({*sizes}) == 1 else (None,)
    if n is None:
        raise c.error(f"the axes of a repeated label must have one size, not {list(sizes)}")
    if not isinstance(n, int):
        raise c.needs_number(f"the axes of a repeated label must not change: {', '.join(map(str, sizes))}")
    return n


def _diagonal(c: Lowering, x: Node, labels: tuple[int, ...]) -> tuple[Node, tuple[int, ...]]:
    """x without repeated labels: of their axes, joined to one, every n + 1-th element (n * n + n + 1-th of three)."""
    b = c.b
    for label in dict.fromkeys(labels):
        axes = [k for k, found in enumerate(labels) if found == label]
        if len(axes) > 1:
            n = _known(c, [x.shape[k] for k in axes])
            rest = [k for k in range(x.rank) if k not in axes]
            shape = [x.shape[k] for k in rest]
            x = b.reshape(b.permute(x, [*rest, *axes]), [*shape, n ** len(axes)])
            x = b.slice(x, [0] * x.rank, [*shape, n], [*[1] * len(rest), sum(n**k for k in range(len(axes)))])
            labels = (*(labels[k] for k in rest), label)
    return x, labels


def _inflated(c: Lowering, x: Node, labels: tuple[int, ...], wanted: tuple[int, ...]) -> Node:
    """x with its axes as `wanted`, where a repeated label is a diagonal with zeros around: `_diagonal` turned round."""
    b, zero = c.b, c.b.const(0, x.dtype)
    for label in labels:
        times = wanted.count(label)
        if times > 1:
            at = labels.index(label)
            n = _known(c, x.shape[at : at + 1])
            rest = [k for k in range(x.rank) if k != at]
            shape = [x.shape[k] for k in rest]
            x = b.permute(x, [*rest, at])
            if n:
                none = [0] * x.rank
                x = b.pad(x, none, none, zero, [*none[1:], sum(n**k for k in range(times)) - 1])
            x = b.reshape(x, [*shape, *[n] * times])
            labels = (*(labels[k] for k in rest), *[label] * times)
    left = list(range(x.rank))
    order = []
    for label in wanted:
        order.append(next(k for k in left if labels[k] == label))
        left.remove(order[-1])
    return b.permute(x, order)
