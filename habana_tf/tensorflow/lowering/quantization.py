"""Fake quantization: floats rounded to the numbers that a few bits can say, for training that expects to be quantized.

The 2^bits numbers (one less with `narrow_range`) are equally far apart and go from `min` to `max`, both moved by less
than one distance so that 0 is among them: padding with zeros must stay exact. A range of zeros only has no numbers
but 0. The formulas are those of TensorFlow's fake_quant_ops_functor.h, in its order of operations: at a tie the last
bit decides between two numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.formulas.term import Term, wrap
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import op


def _numbers(c: Lowering, least: Term, most: Term) -> tuple[Term, Term, Term]:
    """(the smallest number, the greatest, the distance) of a range."""
    bits = c.attr("num_bits")
    c.require(2 <= bits <= 16, "num_bits must be between 2 and 16, inclusive")
    first, last = float(bool(c.attr("narrow_range"))), float((1 << bits) - 1)
    distance = (most - least) / (last - first)
    zero = (first - least / distance).max(first).min(last)
    whole = zero.map("floor")
    zero = (zero - whole).test("ge", 0.5).where(whole + 1, whole)  # half away from 0, as std::round
    return (first - zero) * distance, (last - zero) * distance, distance


def _no_range(least: Term, most: Term) -> Term:
    """Whether the range is [0, 0]."""
    return least.map("abs").max(most.map("abs")).test("eq", 0)


@op("FakeQuantWithMinMaxVars", generic="elementwise")
def fake_quant(c: Lowering) -> Node:
    """The nearest of the numbers that `num_bits` can say between `min` and `max`."""
    x, least, most = (wrap(c.b, node) for node in c.inputs)
    low, high, distance = _numbers(c, least, most)
    zero = (-low * (1 / distance) + 0.5).map("floor")
    steps = ((x.min(high).max(low) - low) / distance - zero + 0.5).map("floor")
    zeros = Term(c.b, c.b.expand(c.b.const(0.0, x.node.dtype), x.node.shape))
    return _no_range(least, most).where(zeros, steps * distance).done(c.inputs[0].dtype)


@op("FakeQuantWithMinMaxVarsGradient")
def fake_quant_gradient(c: Lowering) -> Sequence[Node]:
    """Gradients pass within the range, and go to `min` and `max` from below and above it."""
    gradient, x, least, most = (wrap(c.b, node) for node in c.inputs)
    c.require(c.inputs[0].shape == c.inputs[1].shape, "gradient and input must be the same size")
    low, high, _ = _numbers(c, least, most)
    nothing = _no_range(least, most)
    below, above = x.test("lt", low), x.test("gt", high)
    inside = x.test("ge", low).test("and", x.test("le", high))
    within = inside.where(gradient, gradient * 0)
    axes = range(x.node.rank)

    def total(chosen: Term) -> Node:
        summed = Term(c.b, c.b.reduce("sum", chosen.where(gradient, gradient * 0).node, axes))
        return nothing.where(summed * 0, summed).done(c.inputs[0].dtype)

    return nothing.where(gradient, within).done(c.inputs[0].dtype), total(below), total(above)
