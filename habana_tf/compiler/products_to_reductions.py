"""Turns contractions with symbolic strides, which have no kernels, into reductions: mostly attention over any length.

    scores[b, h, s, t] = sum over d of q[b, s, h, d] * k[b, t, h, d]        s, t: symbolic sequence lengths

The result's row stride depends on the sequence length, and contraction kernels need constant strides. A reduction
(`codegen/loops.py`) multiplies and adds elementwise in the contraction's accumulator: slower than register tiles, but
the same code for all sizes. Dense layers keep their tiles: there the axes of batch and sequence merge into one.

Only batched products (of example with example), a small part of a network, are converted. Others would lose more in
every step than compiling once per size costs; if a copy does not help either (see `contraction_operands.py`), each
size gets its own recipe.
"""

from __future__ import annotations

from habana_tf.compiler.contraction_operands import has_code, whole
from habana_tf.compiler.narrow_operands import wide
from habana_tf.ir.builder import Builder
from habana_tf.ir.primitives import Contraction, Node, Op


def per_example(node: Node) -> bool:
    """Whether a contraction has batch labels, multiplying example with example."""
    spec: Contraction = node.arg
    return bool(set(spec.a) & set(spec.b) & set(spec.out))


def as_loops(node: Node) -> Node:
    """The node, or, for a batched product that has no kernel even with its operands in memory, an equal reduction."""
    if node.op is not Op.CONTRACT:
        return node
    if not per_example(node) or has_code(node, (whole(node.src[0]), whole(node.src[1]))):
        return node
    return as_reduction(node)


def as_reduction(node: Node) -> Node:
    """A contraction as a reduction of an elementwise product."""
    spec: Contraction = node.arg
    labels = [*spec.out, *(x for x in spec.a if x not in spec.out)]
    sides = list(zip(node.src, (spec.a, spec.b), strict=True))
    sizes = {label: n for s, axes in sides for label, n in zip(axes, s.shape, strict=True)}
    b = Builder()
    b.origin = node.origin
    factors = []
    for s, axes in sides:
        order = sorted(range(len(axes)), key=lambda k: labels.index(axes[k]))
        x = b.permute(wide(b, s, spec), order)
        factors.append(
            b.broadcast_in_dim(x, [sizes[label] for label in labels], [labels.index(axes[k]) for k in order])
        )
    total = b.reduce("sum", b.binary("mul", *factors), range(len(spec.out), len(labels)))
    return b.cast(total, node.dtype)
