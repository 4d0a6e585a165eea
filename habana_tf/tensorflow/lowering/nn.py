"""Bias and softmax.

bfloat16 is computed in float32 and rounded once.
"""

from __future__ import annotations

from habana_tf.formulas.term import Term, wrap
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import FLOATS, op


def _channel_axis(c: Lowering, x: Node) -> int:
    return 1 if c.attr("data_format", "NHWC").startswith("NC") else x.rank - 1


@op("BiasAdd", "BiasAddV1", generic="channels", T=FLOATS)
def bias_add(c: Lowering) -> Node:
    x, bias = c.inputs
    c.require(x.rank >= 2 and bias.rank == 1, "an input of rank 2 or more and a bias of rank 1 are needed")
    channel = _channel_axis(c, x)
    if bias.shape[0] != x.shape[channel]:
        raise c.error(f"the bias must have one value for each of the {x.shape[channel]} channels")
    return c.b.map("add", x, c.b.broadcast_in_dim(bias, x.shape, (channel,)))


@op("BiasAddGrad", T=FLOATS)
def bias_add_gradient(c: Lowering) -> Node:
    dy = c.inputs[0]
    c.require(dy.rank >= 2, "a gradient of rank 2 or more is needed")
    channel = _channel_axis(c, dy)
    return c.b.reduce("sum", dy, [i for i in range(dy.rank) if i != channel])


def shifted_exponentials(c: Lowering, x: Node) -> tuple[Term, Term, Term]:
    """x less its maximum, its exponential, and the sum of that over the last axis (kept with size 1)."""
    logits = wrap(c.b, x)
    shifted = logits - logits.over("max", [-1])
    exponentials = shifted.map("exp")
    return shifted, exponentials, exponentials.sum([-1])


@op("Softmax", generic="rows", T=FLOATS)
def softmax(c: Lowering) -> Node:
    x = c.inputs[0]
    _, exponentials, total = shifted_exponentials(c, x)
    return (exponentials / total).done(x.dtype)


@op("LogSoftmax", generic="rows", T=FLOATS)
def log_softmax(c: Lowering) -> Node:
    x = c.inputs[0]
    shifted, _, total = shifted_exponentials(c, x)
    return (shifted - total.map("log")).done(x.dtype)
