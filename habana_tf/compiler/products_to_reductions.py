"""Turns contractions that have no kernel for sizes not known yet into reductions: attention over any length, above all.

    scores[b, h, s, t] = sum over d of q[b, s, h, d] * k[b, t, h, d]        s, t: as long as the sequence is this time

Rows and columns of such a result are as far apart as the sequence is long, and the kernels of contractions want that
distance in their code. Loops over one domain do not (`codegen/loops.py`): they multiply and add up element by element,
in the contraction's accumulator, which is slower than register tiles but the same for every size. What a batch of
sequences is multiplied with, a dense layer's weights, keeps its tiles: there the axes of the batch are walked as one.

Only products of example with example, which are the smaller part of a network, are worth it. Others would be slower in
every step than compiling for each size is once; if they cannot be read from a copy either (see
`contraction_operands.py`), each size gets a recipe.
"""

from __future__ import annotations

from habana_tf.compiler.contraction_operands import has_code, whole
from habana_tf.ir.builder import Builder
from habana_tf.ir.primitives import Contraction, Node, Op


def per_example(node: Node) -> bool:
    """Whether a contraction multiplies example with example."""
    spec: Contraction = node.arg
    return bool(set(spec.a) & set(spec.b) & set(spec.out))


def as_loops(node: Node) -> Node:
    """The node, or for a product per example that has no code over operands in memory the same sums as a reduction."""
    if node.op is not Op.CONTRACT:
        return node
    if not per_example(node) or has_code(node, (whole(node.src[0]), whole(node.src[1]))):
        return node
    return as_reduction(node)


def as_reduction(node: Node) -> Node:
    """A contraction as products of elements that are summed."""
    spec: Contraction = node.arg
    labels = [*spec.out, *(x for x in spec.a if x not in spec.out)]
    sides = list(zip(node.src, (spec.a, spec.b), strict=True))
    sizes = {label: n for s, axes in sides for label, n in zip(axes, s.shape, strict=True)}
    b = Builder()
    b.origin = node.origin
    factors = []
    for s, axes in sides:
        order = sorted(range(len(axes)), key=lambda k: labels.index(axes[k]))
        x = b.permute(b.cast(s, spec.accumulator), order)
        factors.append(
            b.broadcast_in_dim(x, [sizes[label] for label in labels], [labels.index(axes[k]) for k in order])
        )
    total = b.reduce("sum", b.binary("mul", *factors), range(len(spec.out), len(labels)))
    return b.cast(total, node.dtype)
