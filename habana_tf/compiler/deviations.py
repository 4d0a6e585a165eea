"""Finds sums of squared distances from the mean: batch norm's variance, before it is divided by how many there are.

    sum((x - sum(x) / n) * (x - sum(x) / n))      over all axes but the last, along which x has n points each

By its definition it waits for the mean and reads x once more. Known as what it is, it can be taken in the pass that
makes x (see `codegen.result_sums`): it is a function of x alone, and its kernel need not wait for the mean's.
"""

from __future__ import annotations

from habana_tf.ir import extent as ext
from habana_tf.ir.primitives import Node, Op


def deviations(node: Node) -> Node | None:
    """The x of which a node is that sum; None if it is none."""
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
    """Whether a node is the mean of x over all axes but the last, in x's shape."""
    stretched = (1,) * (x.rank - 1) + x.shape[-1:]
    if node.op is not Op.EXPAND or node.src[0].shape != stretched:
        return False
    mean = _under(node.src[0], Op.RESHAPE)  # there is one axis, which no reshape can confuse with another
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
