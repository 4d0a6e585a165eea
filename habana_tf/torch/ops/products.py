"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence

from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Contraction, Node
from habana_tf.torch.ops.row import Call, Operand, both, overload


def _product(c: Call, a: Node, b: Node) -> Node:
    """a @ b, of matrices or of batches of them."""
    if not a.dtype.is_float:
        return _summed(c, a, b)
    batch = tuple(range(3, 1 + a.rank))
    spec = Contraction((*batch, 0, 1), (*batch, 1, 2), (*batch, 0, 2), a.dtype.accumulator)
    return c.b.contract(a, b, spec)


_MOST_SUMMED = 1 << 19
"""Products of one call up to which whole numbers of 32 bits and less are a program; the CPU's kernels for many are
faster. Of 64 bits they are slower for any."""


def _summed(c: Call, a: Node, b: Node) -> Node:
    """a @ b of whole numbers, which the units for products do not take: sums of products."""
    *batch, m, k = a.shape
    n = b.shape[-1]
    _few(c, a.dtype, [*batch, m, k, n])
    x = c.b.expand(c.b.reshape(c.term(a).node, (*batch, m, k, 1)), (*batch, m, k, n))
    y = c.b.expand(c.b.reshape(c.term(b).node, (*batch, 1, k, n)), (*batch, m, k, n))
    return c.b.reshape(c.b.reduce("sum", c.b.binary("mul", x, y), [a.rank - 1]), (*batch, m, n))


def _few(c: Call, dtype: DType, sizes: Sequence[Extent]) -> None:
    """Refuses products of whole numbers that the CPU computes faster, and of booleans, which it refuses itself."""
    if dtype is DType.BOOL or dtype is not DType.I64 and math.prod(c.numbers(sizes)) > _MOST_SUMMED:
        raise c.refused(f"a product of {dtype} with more than {_MOST_SUMMED} factors, or of booleans,")


overload("mm", "bmm")(_product)


def _is_0(n: float) -> bool:
    return n == 0


@overload(*both("addmm", "baddbmm"), runtime=["beta", "alpha"], literal=_is_0)
def addmm(c: Call, x: Node, a: Node, b: Node, beta: Operand = 1, alpha: Operand = 1) -> Node:
    if alpha == 0 and x.dtype is DType.F32 and not (c.name.startswith("baddbmm") and _is_small(c, a, b)):
        return _without_product(c, x, beta)
    return _scaled_sum(c, x, _product(c, a, b), beta, alpha)


def _is_small(c: Call, a: Node, b: Node) -> bool:
    """Whether PyTorch's CPU multiplies batches with loops of its own, which make NaN of 0 * NaN, and not with BLAS."""
    return math.prod(c.numbers((*a.shape[1:], b.shape[2]))) < 400


def _without_product(c: Call, x: Node, beta: Operand) -> Node:
    """A sum whose product counts 0 times: BLAS does not look at its factors, which may be anything."""
    scaled = c.term(0) if beta == 0 else c.term(x) if beta == 1 else c.term(x) * c.term(beta)
    return c.b.expand(scaled.node, c.shape)


def _by_vector(c: Call, a: Node, x: Node) -> Node:
    if not a.dtype.is_float:
        _few(c, a.dtype, a.shape)
        y = c.b.expand(c.b.reshape(c.term(x).node, (1, x.numel)), a.shape)
        return c.b.reshape(c.b.reduce("sum", c.b.binary("mul", c.term(a).node, y), [1]), (a.shape[0],))
    return c.b.contract(a, x, Contraction((0, 1), (1,), (0,), a.dtype.accumulator))


overload("mv")(_by_vector)


@overload("dot", "vdot")
def dot(c: Call, x: Node, y: Node) -> Node:
    if not x.dtype.is_float:
        _few(c, x.dtype, x.shape)
        return c.b.reshape(c.b.reduce("sum", c.b.binary("mul", c.term(x).node, c.term(y).node), [0]), ())
    return c.b.contract(x, y, Contraction((0,), (0,), (), x.dtype.accumulator))


def _scaled_sum(c: Call, x: Operand, made: Node, beta: Operand, alpha: Operand) -> Node:
    """beta * x + alpha * made. Where beta is 0, x is not read: it may be memory that was never written."""
    product = c.term(made) if alpha == 1 else c.term(made) * c.term(alpha)
    if beta == 0:
        return product.node
    return (product + (c.term(x) if beta == 1 else c.term(x) * c.term(beta))).node


@overload(*both("addmv"), runtime=["beta", "alpha"], literal=_is_0)
def addmv(c: Call, x: Node, a: Node, y: Node, beta: Operand = 1, alpha: Operand = 1) -> Node:
    if alpha == 0 and x.dtype is DType.F32:
        return _without_product(c, x, beta)
    return _scaled_sum(c, x, _by_vector(c, a, y), beta, alpha)


@overload(*both("addr"), runtime=["beta", "alpha"], floats=True, literal=_is_0)
def addr(c: Call, x: Node, a: Node, y: Node, beta: Operand = 1, alpha: Operand = 1) -> Node:
    made = c.term(c.b.reshape(a, (*a.shape, 1))) * c.term(y)
    return _scaled_sum(c, x, made.node, beta, alpha)


@overload(*both("addbmm"), runtime=["beta", "alpha"], floats=True, literal=_is_0)
def addbmm(c: Call, x: Node, a: Node, y: Node, beta: Operand = 1, alpha: Operand = 1) -> Node:
    if alpha == 0 and x.dtype is DType.F32:
        return _without_product(c, x, beta)
    made = c.b.contract(a, y, Contraction((0, 1, 2), (0, 2, 3), (1, 3), a.dtype.accumulator))
    return _scaled_sum(c, x, made, beta, alpha)
