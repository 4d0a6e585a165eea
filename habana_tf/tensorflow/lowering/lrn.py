"""Local response normalization: each channel divided by a power of the squares around it, and its gradient.

norm[i] = bias + alpha * the sum over |j - i| <= radius of x[j] ** 2
y[i]    = x[i] * norm[i] ** -beta
dx[j]   = dy[j] * norm[j] ** -beta - 2 alpha beta x[j] * the sum over |i - j| <= radius of dy[i] y[i] / norm[i]
"""

from __future__ import annotations

from habana_tf.formulas.term import Term, wrap
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import FLOATS, op


def _around(c: Lowering, x: Term) -> Term:
    """The sum over the channels at most depth_radius away."""
    node, radius, last = x.node, c.attr("depth_radius", 5), x.node.rank - 1
    c.require(node.rank == 4 and radius >= 0, "the input must have rank 4, and depth_radius be non-negative")
    if radius == 0:
        return x
    edge = [0] * last + [radius]
    view = c.b.window(c.b.pad(node, edge, edge), [last], [2 * radius + 1], [1], [1])
    return Term(c.b, c.b.reduce("sum", view, [view.rank - 1]))


def _norm(c: Lowering, x: Term) -> Term:
    return _around(c, x * x) * c.attr("alpha", 1.0) + c.attr("bias", 1.0)


@op("LRN", T=FLOATS)
def lrn(c: Lowering) -> Node:
    (given,) = c.inputs
    x = wrap(c.b, given)
    return (x * _norm(c, x).pow(-c.attr("beta", 0.5))).done(given.dtype)


@op("LRNGrad", T=FLOATS)
def lrn_gradient(c: Lowering) -> Node:
    if any(node.shape != c.inputs[0].shape for node in c.inputs):
        raise c.error("gradient, input and output must have one shape")
    dy, x, y = (wrap(c.b, node) for node in c.inputs)
    norm, beta = _norm(c, x), c.attr("beta", 0.5)
    others = _around(c, dy * y / norm) * x * (-2 * c.attr("alpha", 1.0) * beta)
    return (dy * norm.pow(-beta) + others).done(c.inputs[0].dtype)
