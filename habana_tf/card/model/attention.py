"""Attention that a card computes in one go: its scores are never in HBM, and of a causal one half are not computed.

    scores = q k^T       product
    softmax(scores + m)  kernel      the softmax of `scaled_dot_product_attention`, the only one that compares the
    weights v            product     largest score of a row with -inf; m: made of positions alone, as causal masks are
    and the gradient's products and kernels on tensors as large as the scores

They are found by their softmax, from which the tensors of as many elements lead to the other kernels, and to products,
of which one operand or the result is such a tensor: what a product reads or makes besides may be as large by chance.
`Parameters.attention` says how long they take. A mask that the program gives, or one query for many keys, is no causal
attention.
"""

from __future__ import annotations

from habana_tf.card.model.kernels import VIEWS, Unit, size
from habana_tf.ir import extent as ext
from habana_tf.ir.primitives import COMPARE, Node, Op


def causal(units: list[Unit]) -> tuple[set[int], set[Node]]:
    """The units of causal attentions, by index, and the tensors that they hand to each other: their scores."""
    touching: dict[Node, list[Unit]] = {}
    for unit in units:
        for n in {*unit.loads, *unit.results}:
            touching.setdefault(n, []).append(unit)
    found: set[int] = set()
    scores: set[Node] = set()
    for first in units:
        if first.index in found or not _is_softmax(first) or not _is_masked(first):
            continue
        waiting = [first]
        while waiting:
            unit = waiting.pop()
            found.add(unit.index)
            for n in () if unit.product else {*unit.loads, *unit.results}:
                if size(n) == first.elements and n not in scores:
                    scores.add(n)
                    waiting += [each for each in touching[n] if each.index not in found]
    return found, scores


def _is_softmax(unit: Unit) -> bool:
    """Whether a kernel is that softmax, of as many queries as keys."""
    shapes = [n.shape for n in unit.results if size(n) == unit.elements and n.rank > 1]
    square = any(ext.nominal(s[-1]) == ext.nominal(s[-2]) > 1 for s in shapes)
    made = {n.arg for n in unit.inside if n.op is Op.MAP}
    return not unit.product and square and {"exp", "eq"} <= made and any(n.op is Op.REDUCE for n in unit.inside)


def _is_masked(unit: Unit) -> bool:
    """Whether what it adds to its scores, or computes itself, is a comparison of positions and nothing else."""
    return any(_of_positions(n) for n in (*unit.loads, *unit.inside) if 1 < size(n) < unit.elements)


def _of_positions(n: Node) -> bool:
    """Whether a tensor is made of positions that are compared, and of numbers."""
    compared, seen, stack = False, {n}, [n]
    while stack:
        node = stack.pop()
        if size(node) == 1 or node.op in (Op.IOTA, Op.CONST, Op.EXTENT):
            continue
        if node.op is not Op.MAP and node.op not in VIEWS:
            return False
        compared = compared or node.op is Op.MAP and node.arg in COMPARE
        stack += [source for source in node.src if source not in seen]
        seen.update(node.src)
    return compared
