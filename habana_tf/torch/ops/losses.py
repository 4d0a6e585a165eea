"""Softmax and losses with their gradients."""

from __future__ import annotations

import math

from habana_tf.formulas.term import Term
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, Operand, overload

_NONE, _MEAN = 0, 1
"""PyTorch's numbers of a loss's reductions; 2 is the sum."""


@overload("_softmax", floats=True)
def softmax(c: Call, x: Node, dim: int, half_to_float: bool) -> Node:
    t = c.term(x)
    if not x.rank:
        return (t / t).node
    exponentials = (t - t.over("max", [dim])).map("exp")
    return (exponentials / exponentials.sum([dim])).node


@overload("_safe_softmax", floats=True)
def safe_softmax(c: Call, x: Node, dim: int, dtype: object = None) -> Node:
    """0 in a row of nothing but minus infinity."""
    t = c.term(x)
    greatest = t.over("max", [dim]) if x.rank else t
    masked = greatest.test("eq", -math.inf)
    exponentials = (t - masked.where(Term(c.b, c.b.const(0, greatest.node.dtype)), greatest)).map("exp")
    total = exponentials.sum([dim]) if x.rank else exponentials
    return (exponentials / masked.where(Term(c.b, c.b.const(1, total.node.dtype)), total)).node


@overload("_log_softmax", floats=True)
def log_softmax(c: Call, x: Node, dim: int, half_to_float: bool) -> Node:
    t = c.term(x)
    if not x.rank:
        return (t - t).node
    shifted = t - t.over("max", [dim])
    return (shifted - shifted.map("exp").sum([dim]).map("log")).node


@overload("_softmax_backward_data", floats=True)
def softmax_backward(c: Call, dy: Node, y: Node, dim: int, input_dtype: object) -> Node:
    grad, out = c.term(dy), c.term(y)
    weighted = grad * out
    return (weighted - out * (weighted.sum([dim]) if y.rank else weighted)).node


@overload("_log_softmax_backward_data", floats=True)
def log_softmax_backward(c: Call, dy: Node, y: Node, dim: int, input_dtype: object) -> Node:
    grad = c.term(dy)
    return (grad - c.term(y).map("exp") * (grad.sum([dim]) if y.rank else grad)).node


def _labels(c: Call, target: Node, classes: Extent, ignored: int) -> tuple[Term, Term]:
    """[N, C] whether a class is the row's label, [N, 1] whether the row counts."""
    b, (rows,) = c.b, target.shape
    column = Term(b, b.reshape(target, (rows, 1)))
    counts = column.test("ne", ignored)
    c.in_range("IndexError: Target {index} is out of bounds.", counts.where(column, 0).node, classes)
    return Term(b, b.binary("eq", b.iota((rows, classes), 1, target.dtype), column.node)), counts


def _row_weights(c: Call, is_label: Term, counts: Term, weight: Node | None) -> Term:
    """[N, 1] what each row weighs."""
    b = c.b
    one = Term(b, b.const(1.0, DType.F32, counts.node.shape))
    if weight is not None:
        one = is_label.where(Term(b, b.expand(b.cast(weight, DType.F32), is_label.node.shape)), 0.0).sum([1])
    return counts.where(one, 0.0)


def _rows(c: Call, x: Node, target: Node) -> tuple[Node, Node]:
    """Scores [N, C] and labels [N] of scores [C], [N, C] or [N, C, places...]."""
    b = c.b
    if x.rank == 1:
        return b.reshape(x, (1, *x.shape)), b.reshape(target, (1,))
    inside = b.permute(x, (0, *range(2, x.rank), 1))
    return b.reshape(inside, (target.numel, x.shape[1])), b.reshape(target, (target.numel,))


@overload("nll_loss_forward", "nll_loss2d_forward", floats=True)
def nll_loss(c: Call, x: Node, target: Node, weight: Node | None, reduction: int, ignore_index: int) -> list[Node]:
    rows, labels = _rows(c, x, target)
    is_label, counts = _labels(c, labels, rows.shape[1], ignore_index)
    weights = _row_weights(c, is_label, counts, weight)
    losses = counts.where(-is_label.where(c.term(rows), 0.0).sum([1]) * weights, 0.0)
    total = weights.sum([0, 1]).flat([0, 1])
    if reduction == _NONE:
        return [c.b.reshape(losses.node, c.shape), c.b.const(0, DType.F32, c.results[1][0])]
    added = losses.sum([0, 1]).flat([0, 1])
    return [(added / total if reduction == _MEAN else added).node, total.node]


@overload("nll_loss_backward", "nll_loss2d_backward", floats=True)
def nll_loss_backward(
    c: Call, dy: Node, x: Node, target: Node, weight: Node | None, reduction: int, ignore_index: int, total: Node
) -> Node:
    b = c.b
    rows, labels = _rows(c, x, target)
    is_label, counts = _labels(c, labels, rows.shape[1], ignore_index)
    weights = _row_weights(c, is_label, counts, weight)
    grad = c.term(b.reshape(dy, (dy.numel, 1)))
    each = grad * weights if reduction != _MEAN else grad * weights / c.term(total)
    each = counts.where(-each, 0.0)
    made = is_label.where(Term(b, b.expand(each.node, rows.shape)), 0.0).node
    if x.rank <= 2:
        return b.reshape(made, x.shape)
    inside = b.reshape(made, (x.shape[0], *x.shape[2:], x.shape[1]))
    return b.permute(inside, (0, x.rank - 1, *range(1, x.rank - 1)))


def _reduced(c: Call, losses: Term, reduction: int) -> Node:
    if reduction == _NONE:
        return losses.node
    node = losses.node
    axes = list(range(node.rank))
    added = Term(losses.b, losses.b.reduce("sum", node, axes))
    return (added / losses.count(axes) if reduction == _MEAN else added).node


def _share(c: Call, dy: Node, away: Term, reduction: int) -> Term:
    """The gradient that each element's loss gets."""
    grad, count = c.term(dy), away.count(range(away.node.rank))
    return grad * (1.0 / count) if reduction == _MEAN and count != 0 else grad


def _is_0_or_less(n: float) -> bool:
    return n <= 0


@overload("smooth_l1_loss", runtime=["beta"], floats=True, literal=_is_0_or_less)
def smooth_l1_loss(c: Call, x: Node, target: Node, reduction: int = _MEAN, beta: Operand = 1.0) -> Node:
    far, bend = (c.term(x) - c.term(target)).map("abs"), c.term(beta)
    losses = far if beta == 0 else far.test("lt", bend).where(far * far * (0.5 / bend), far - bend * 0.5)
    return _reduced(c, losses, reduction)


@overload("smooth_l1_loss_backward", runtime=["beta"], floats=True, in_rows=True, literal=_is_0_or_less)
def smooth_l1_loss_backward(c: Call, dy: Node, x: Node, target: Node, reduction: int, beta: Operand) -> Node:
    if isinstance(beta, (int, float)) and beta <= 0:
        raise c.refused("a gradient with a beta of 0 or less, which PyTorch's functions never ask for,")
    away = c.term(x) - c.term(target)
    return ((away * (1.0 / c.term(beta))).max(-1.0).min(1.0) * _share(c, dy, away, reduction)).node


@overload("huber_loss", runtime=["delta"], floats=True)
def huber_loss(c: Call, x: Node, target: Node, reduction: int = _MEAN, delta: Operand = 1.0) -> Node:
    far, bend = (c.term(x) - c.term(target)).map("abs"), c.term(delta)
    return _reduced(c, far.test("le", bend).where(far * far * 0.5, (far - bend * 0.5) * bend), reduction)


@overload("huber_loss_backward", runtime=["delta"], floats=True, in_rows=True)
def huber_loss_backward(c: Call, dy: Node, x: Node, target: Node, reduction: int, delta: Operand) -> Node:
    away, bend = c.term(x) - c.term(target), c.term(delta)
    return (away.max(-bend).min(bend) * _share(c, dy, away, reduction)).node


_LEAST_LOG = -100.0
"""PyTorch's bound of the logarithms in binary cross entropy."""


@overload("binary_cross_entropy", floats=True)
def binary_cross_entropy(c: Call, x: Node, target: Node, weight: Node | None = None, reduction: int = _MEAN) -> Node:
    p, t = c.term(x), c.term(target)
    for name, each in {"input": p, "target": t}.items():
        inside = c.b.binary("and", each.test("ge", 0.0).node, each.test("le", 1.0).node)
        c.holds(f"RuntimeError: all elements of {name} should be between 0 and 1", inside)
    losses = (t - 1.0) * (-p).map("log1p").max(_LEAST_LOG) - t * p.map("log").max(_LEAST_LOG)
    return _reduced(c, losses if weight is None else losses * c.term(weight), reduction)


@overload("binary_cross_entropy_backward", floats=True)
def binary_cross_entropy_backward(
    c: Call, dy: Node, x: Node, target: Node, weight: Node | None = None, reduction: int = _MEAN
) -> Node:
    p, t = c.term(x), c.term(target)
    slope = (p - t) / ((1.0 - p) * p).max(1e-12)
    grad = slope * _share(c, dy, slope, reduction)
    return (grad if weight is None else grad * c.term(weight)).node


@overload("mse_loss", floats=True)
def mse_loss(c: Call, x: Node, target: Node, reduction: int = _MEAN) -> Node:
    away = c.term(x) - c.term(target)
    return _reduced(c, away * away, reduction)


@overload("mse_loss_backward", floats=True, in_rows=True)
def mse_loss_backward(c: Call, dy: Node, x: Node, target: Node, reduction: int) -> Node:
    away = c.term(x) - c.term(target)
    return (away * _share(c, dy, away, reduction) * 2.0).node
