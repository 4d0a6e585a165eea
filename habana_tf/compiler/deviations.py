"""Recognizes sums of squared deviations from the mean, batch norm's variance times its count:

    sum((x - sum(x) / n) * (x - sum(x) / n))      over all axes but the last, of n points per channel

As written it depends on the mean and reads x again. Recognized, it is a reduction of x alone, and can be computed in
the pass that produces x (see `codegen.result_sums`).
"""

from __future__ import annotations

from habana_tf.ir import extent as ext
from habana_tf.ir.primitives import Node, Op


def deviations(node: Node) -> Node | None:
    """The x of which a node is the sum of squared deviations, else None."""
    if node.op is not Op.REDUCE or node.arg[0] != "sum" or node.arg[1] != tuple(range(node.src[0].rank - 1)):
        return None
    square = node.src[0]
    if square.op is not Op.MAP or square.arg != "mul" or square.src[0] is not square.src[1]:
        return None
    away = square.src[0]
    if away.op is not Op.MAP or away.arg != "sub":
        return None
    x, mean = away.src
    return x if _is_mean(mean, x) else None


def _is_mean(node: Node, x: Node) -> bool:
    """Whether a node is the mean of x over all axes but the last, broadcast to x's shape."""
    stretched = (1,) * (x.rank - 1) + x.shape[-1:]
    if node.op is not Op.EXPAND or node.src[0].shape != stretched:
        return False
    mean = _under(node.src[0], Op.RESHAPE)  # one axis is not 1: a reshape keeps it
    if mean.op is not Op.MAP or mean.arg != "div":
        return False
    total, count = _under(mean.src[0], Op.RESHAPE), _under(mean.src[1], Op.RESHAPE, Op.EXPAND)
    if total.op is not Op.REDUCE or total.arg != ("sum", tuple(range(x.rank - 1))) or total.src[0] is not x:
        return False
    number = count.arg if count.op is Op.CONST and isinstance(count.arg, str) else None
    return number is not None and float.fromhex(number) == ext.product(x.shape[:-1])


def _under(node: Node, *views: Op) -> Node:
    while node.op in views:
        node = node.src[0]
    return node
