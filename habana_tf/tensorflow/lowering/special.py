"""Rows of digamma, zeta, polygamma, and the inverses of the error function and of the normal distribution."""

from __future__ import annotations

from habana_tf.formulas import special
from habana_tf.formulas.term import Term, wrap
from habana_tf.ir.builder import broadcast_shapes
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.math import wide
from habana_tf.tensorflow.lowering.row import FLOATS, op


@op("Digamma", T=FLOATS, generic="elementwise")
def digamma(c: Lowering) -> Node:
    """The derivative of lgamma."""
    return wide(c, special.digamma, *c.inputs)


@op("Ndtri", T=FLOATS, generic="elementwise")
def ndtri(c: Lowering) -> Node:
    return wide(c, special.ndtri, *c.inputs)


@op("Erfinv", T=FLOATS, generic="elementwise")
def erfinv(c: Lowering) -> Node:
    return wide(c, special.erfinv, *c.inputs)


def _together(c: Lowering) -> tuple[Term, Term]:
    """Both inputs in their common shape."""
    shape = broadcast_shapes(c.inputs[0].shape, c.inputs[1].shape)
    first, second = (wrap(c.b, c.b.expand(x, shape)) for x in c.inputs)
    return first, second


op("Zeta", T=(DType.F32,), generic="elementwise")(lambda c: special.zeta(*_together(c)).node)
op("Polygamma", T=(DType.F32,), generic="elementwise")(lambda c: special.polygamma(*_together(c)).node)
