"""Softmax and losses with their gradients."""

from __future__ import annotations

import math

from habana_tf.formulas.term import Term
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, Operand, formula, overload

_NONE, _MEAN = 0, 1
"""PyTorch's numbers of a loss's reductions; 2 is the sum."""


@formula("_softmax")
def softmax(x: Term, dim: int, half_to_float: bool) -> Term:
    if not x.node.rank:
        return x / x
    exponentials = (x - x.over("max", [dim])).map("exp")
    return exponentials / exponentials.sum([dim])


@formula("_safe_softmax")
def safe_softmax(x: Term, dim: int, dtype: object = None) -> Term:
    """0 in a row of nothing but minus infinity."""
    greatest = x.over("max", [dim]) if x.node.rank else x
    masked = greatest.test("eq", -math.inf)
    exponentials = (x - masked.where(0, greatest)).map("exp")
    total = exponentials.sum([dim]) if x.node.rank else exponentials
    return exponentials / masked.where(1, total)


@formula("_log_softmax")
def log_softmax(x: Term, dim: int, half_to_float: bool) -> Term:
    if not x.node.rank:
        return x - x
    shifted = x - x.over("max", [dim])
    return shifted - shifted.map("exp").sum([dim]).map("log")


@formula("_softmax_backward_data")
def softmax_backward(dy: Term, y: Term, dim: int, input_dtype: object) -> Term:
    weighted = dy * y
    return weighted - y * (weighted.sum([dim]) if y.node.rank else weighted)


@formula("_log_softmax_backward_data")
def log_softmax_backward(dy: Term, y: Term, dim: int, input_dtype: object) -> Term:
    return dy - y.map("exp") * (dy.sum([dim]) if y.node.rank else dy)


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


def _reduced(losses: Term, reduction: int) -> Term:
    if reduction == _NONE:
        return losses
    axes = range(losses.node.rank)
    added = Term(losses.b, losses.b.reduce("sum", losses.node, axes))
    return added / losses.count(axes) if reduction == _MEAN else added


def _share(dy: Term, away: Term, reduction: int) -> Term:
    """The gradient that each element's loss gets."""
    count = away.count(range(away.node.rank))
    return dy * (1 / count) if reduction == _MEAN and count != 0 else dy


def _is_0_or_less(n: float) -> bool:
    return n <= 0


@formula("smooth_l1_loss", runtime=["beta"], literal=_is_0_or_less)
def smooth_l1_loss(x: Term, target: Term, reduction: int = _MEAN, beta: Term | float = 1) -> Term:
    far = (x - target).map("abs")
    losses = far if beta == 0 else far.test("lt", beta).where(far * far * (0.5 / beta), far - beta * 0.5)
    return _reduced(losses, reduction)


@overload("smooth_l1_loss_backward", runtime=["beta"], floats=True, in_rows=True, literal=_is_0_or_less)
def smooth_l1_loss_backward(c: Call, dy: Node, x: Node, target: Node, reduction: int, beta: Operand) -> Node:
    if isinstance(beta, (int, float)) and beta <= 0:
        raise c.refused("a gradient with a beta of 0 or less, which PyTorch's functions never ask for,")
    away = c.term(x) - c.term(target)
    return ((away * (1 / c.term(beta))).max(-1).min(1) * _share(c.term(dy), away, reduction)).node


@formula("huber_loss", runtime=["delta"])
def huber_loss(x: Term, target: Term, reduction: int = _MEAN, delta: Term | float = 1) -> Term:
    far = (x - target).map("abs")
    return _reduced(far.test("le", delta).where(far * far * 0.5, (far - delta * 0.5) * delta), reduction)


@formula("huber_loss_backward", runtime=["delta"], in_rows=True)
def huber_loss_backward(dy: Term, x: Term, target: Term, reduction: int, delta: Term) -> Term:
    away = x - target
    return away.max(-delta).min(delta) * _share(dy, away, reduction)


_LEAST_LOG = -100.0
"""PyTorch's bound of the logarithms in binary cross entropy."""


@overload("binary_cross_entropy", floats=True)
def binary_cross_entropy(c: Call, x: Node, target: Node, weight: Node | None = None, reduction: int = _MEAN) -> Node:
    p, t = c.term(x), c.term(target)
    for name, each in {"input": p, "target": t}.items():
        inside = each.test("ge", 0).test("and", each.test("le", 1))
        c.holds(f"RuntimeError: all elements of {name} should be between 0 and 1", inside.node)
    losses = (t - 1) * (-p).map("log1p").max(_LEAST_LOG) - t * p.map("log").max(_LEAST_LOG)
    return _reduced(losses if weight is None else losses * c.term(weight), reduction).node


@formula("binary_cross_entropy_backward")
def binary_cross_entropy_backward(
    dy: Term, x: Term, target: Term, weight: Term | None = None, reduction: int = _MEAN
) -> Term:
    slope = (x - target) / ((1 - x) * x).max(1e-12)
    grad = slope * _share(dy, slope, reduction)
    return grad if weight is None else grad * weight


formula("mse_loss")(lambda x, target, reduction=_MEAN: _reduced((x - target) * (x - target), reduction))
formula("mse_loss_backward", in_rows=True)(
    lambda dy, x, target, reduction: (x - target) * _share(dy, x - target, reduction) * 2
)
