"""Softmax and losses with their gradients."""

from __future__ import annotations

import math

from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node
from habana_tf.lowering.formula import Term
from habana_tf.torch.ops.row import Call, overload

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


def _labels(c: Call, target: Node, classes: int, ignored: int) -> tuple[Term, Term]:
    """[N, C] whether a class is the row's label, [N, 1] whether the row counts."""
    b, (rows,) = c.b, target.shape
    column = Term(b, b.reshape(target, (rows, 1)))
    counts = column.test("ne", ignored)
    c.in_range("target", counts.where(column, 0).node, classes)
    return Term(b, b.binary("eq", b.iota((rows, classes), 1, target.dtype), column.node)), counts


def _row_weights(c: Call, is_label: Term, counts: Term, weight: Node | None) -> Term:
    """[N, 1] what each row weighs."""
    b = c.b
    one = Term(b, b.const(1.0, DType.F32, counts.node.shape))
    if weight is not None:
        one = is_label.where(Term(b, b.expand(b.cast(weight, DType.F32), is_label.node.shape)), 0.0).sum([1])
    return counts.where(one, 0.0)


def _classes(c: Call, x: Node) -> int:
    if x.rank != 2 or not isinstance(x.shape[1], int):
        raise c.refused("scores of another rank than 2")
    return x.shape[1]


@overload("nll_loss_forward", floats=True)
def nll_loss(c: Call, x: Node, target: Node, weight: Node | None, reduction: int, ignore_index: int) -> list[Node]:
    is_label, counts = _labels(c, target, _classes(c, x), ignore_index)
    weights = _row_weights(c, is_label, counts, weight)
    losses = -is_label.where(c.term(x), 0.0).sum([1]) * weights
    total = weights.sum([0, 1]).flat([0, 1])
    if reduction == _NONE:
        return [losses.flat([1]).node, c.b.const(0, DType.F32, ())]
    added = losses.sum([0, 1]).flat([0, 1])
    return [(added / total if reduction == _MEAN else added).node, total.node]


@overload("nll_loss_backward", floats=True)
def nll_loss_backward(
    c: Call, dy: Node, x: Node, target: Node, weight: Node | None, reduction: int, ignore_index: int, total: Node
) -> Node:
    is_label, counts = _labels(c, target, _classes(c, x), ignore_index)
    weights = _row_weights(c, is_label, counts, weight)
    grad = c.term(c.b.reshape(dy, (dy.numel, 1)))
    each = grad * weights if reduction != _MEAN else grad * weights / c.term(total)
    return is_label.where(-Term(c.b, c.b.expand(each.node, x.shape)), 0.0).node


@overload("mse_loss", floats=True)
def mse_loss(c: Call, x: Node, target: Node, reduction: int = _MEAN) -> Node:
    away = c.term(x) - c.term(target)
    squared = away * away
    if reduction == _NONE:
        return squared.node
    axes = list(range(squared.node.rank))
    added = Term(c.b, c.b.reduce("sum", squared.node, axes))
    return (added / float(str(squared.node.numel)) if reduction == _MEAN else added).node


@overload("mse_loss_backward", floats=True)
def mse_loss_backward(c: Call, dy: Node, x: Node, target: Node, reduction: int) -> Node:
    away = (c.term(x) - c.term(target)) * c.term(dy)
    return (away * (2.0 / float(str(away.node.numel)) if reduction == _MEAN else 2.0)).node
