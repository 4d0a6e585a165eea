"""Matrix products and convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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


@overload("mm")
def mm(c: Call, a: Node, b: Node) -> Node:
    return _product(c, a, b)


@overload("bmm")
def bmm(c: Call, a: Node, b: Node) -> Node:
    return _product(c, a, b)


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


@overload("mv")
def mv(c: Call, a: Node, x: Node) -> Node:
    return _by_vector(c, a, x)


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


# -- convolutions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Convolution:
    """A convolution in the words of the other table: channels last, over two or three axes. One over one axis gets an
    axis of size 1. A transposed one is the gradient of a convolution by its input, so its filter's channels change
    places: `w` is [in, out, ...], and what comes in is what the plain one puts out."""

    c: Call
    rank: int
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]

    @classmethod
    def of(cls, c: Call, x: Node, stride: Any, padding: Any, dilation: Any) -> _Convolution:
        rank = x.rank - 2
        if rank not in (1, 2, 3) or 0 in x.shape:
            raise c.refused("a convolution of nothing or over more than three axes")

        def each(values: Any, along: int) -> list[int]:
            given = [values] * rank if isinstance(values, int) else list(values)
            given = given * rank if len(given) == 1 else given
            return [along, *given] if rank == 1 else given

        return cls(c, rank, each(stride, 1), each(padding, 0), each(dilation, 1))

    def inside(self, x: Node) -> Node:
        """[N, C, ...] as channels last."""
        if self.rank == 1:
            x = self.c.b.reshape(x, (*x.shape[:2], 1, x.shape[2]))
        return self.c.b.permute(x, (0, *range(2, x.rank), 1))

    def outside(self, x: Node) -> Node:
        """The reverse."""
        x = self.c.b.permute(x, (0, x.rank - 1, *range(1, x.rank - 1)))
        return self.c.b.reshape(x, (*x.shape[:2], x.shape[3])) if self.rank == 1 else x

    def filter(self, w: Node) -> Node:
        """[out, in, ...] as [..., in, out]."""
        if self.rank == 1:
            w = self.c.b.reshape(w, (*w.shape[:2], 1, w.shape[2]))
        return self.c.b.permute(w, (*range(2, w.rank), 1, 0))

    def filter_outside(self, w: Node) -> Node:
        """The reverse."""
        w = self.c.b.permute(w, (w.rank - 1, w.rank - 2, *range(w.rank - 2)))
        return self.c.b.reshape(w, (*w.shape[:2], w.shape[3])) if self.rank == 1 else w

    @property
    def attrs(self) -> dict[str, object]:
        """Attributes of the other table's ops; three axes have no explicit padding there."""
        sides = [n for p in self.padding for n in (p, p)] if len(self.padding) == 2 else [0] * 6
        return {
            "strides": [1, *self.stride, 1], "dilations": [1, *self.dilation, 1],
            "padding": "EXPLICIT" if len(self.padding) == 2 else "VALID", "explicit_paddings": [0, 0, *sides, 0, 0],
        }  # fmt: skip

    def _op(self, two: str, three: str) -> str:
        return two if len(self.stride) == 2 else three

    def _padded(self, x: Node) -> Node:
        """Channels last, with zeros around it where the op itself makes none."""
        around = (0, *self.padding, 0) if len(self.padding) == 3 else (0,) * x.rank
        return self.c.b.pad(x, around, around)

    def forward(self, x: Node, w: Node) -> Node:
        inputs = {"input": self._padded(self.inside(x)), "filter": self.filter(w)}
        return self.outside(self.c.existing(self._op("Conv2D", "Conv3D"), inputs, **self.attrs)[0])

    def by_input(self, dy: Node, w: Node, shape: Sequence[Any]) -> Node:
        """The gradient by the input, of a shape [N, C, ...]."""
        c, b = self.c, self.c.b
        sizes = [shape[0], *([1] if self.rank == 1 else []), *shape[2:], shape[1]]
        around = [0, *self.padding, 0] if len(self.padding) == 3 else [0] * len(sizes)
        padded = [n + 2 * p for n, p in zip(sizes, around, strict=True)]
        inputs = {"input_sizes": c.literal(padded), "filter": self.filter(w), "out_backprop": self.inside(dy)}
        made = c.existing(self._op("Conv2DBackpropInput", "Conv3DBackpropInputV2"), inputs, **self.attrs)[0]
        return self.outside(b.slice(made, around, sizes))

    def by_filter(self, x: Node, dy: Node, w: Node) -> Node:
        """The gradient by the filter."""
        c = self.c
        sizes = c.literal(self.filter(w).shape)
        inputs = {"input": self._padded(self.inside(x)), "filter_sizes": sizes, "out_backprop": self.inside(dy)}
        name = self._op("Conv2DBackpropFilter", "Conv3DBackpropFilterV2")
        return self.filter_outside(c.existing(name, inputs, **self.attrs)[0])


@overload("convolution_overrideable", stock="convolution", floats=True, pictures=[0, 1])
def convolution(
    c: Call, x: Node, w: Node, bias: Node | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Node:  # fmt: skip
    b = c.b
    if 0 in c.shape:
        raise c.refused("a convolution of nothing")
    conv = _Convolution.of(c, x, stride, padding, dilation)
    if transposed and groups > 1:
        shape = (c.shape[0], c.shape[1] // groups, *c.shape[2:])
        parts = zip(_split(c, x, 1, groups), _split(c, w, 0, groups), strict=True)
        made = b.concat([conv.by_input(*part, shape) for part in parts], 1)
    else:
        made = conv.by_input(x, w, c.shape) if transposed else conv.forward(x, w)
    return made if bias is None else b.map("add", made, b.broadcast_in_dim(bias, made.shape, (1,)))


def _split(c: Call, x: Node, axis: int, parts: int) -> list[Node]:
    n = c.number(x.shape[axis])
    size = [n // parts if k == axis else m for k, m in enumerate(x.shape)]
    return [c.b.slice(x, [p * n // parts if k == axis else 0 for k in range(x.rank)], size) for p in range(parts)]


def _with_bias_sizes(dy: Any, x: Any, w: Any, *rest: Any) -> Sequence[Any]:
    """The arguments of `convolution_backward`: a transposed one has its channels out in the filter's second axis."""
    return (dy, x, w, [dy.shape[1]], *rest)


@overload(
    "convolution_backward_overrideable", stock="convolution_backward", given=_with_bias_sizes, floats=True,
    pictures=[1, 2],
)  # fmt: skip
def convolution_backward(
    c: Call, dy: Node, x: Node, w: Node, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
    transposed: bool, output_padding: Sequence[int], groups: int, output_mask: Sequence[bool],
) -> list[Node | None]:  # fmt: skip
    if 0 in dy.shape:
        raise c.refused("a convolution of nothing")
    conv = _Convolution.of(c, x, stride, padding, dilation)
    made: list[Node | None] = [None, None, None]
    if transposed:
        made[:2] = _transposed_gradients(c, conv, dy, x, w, groups, output_mask)
    else:
        if output_mask[0]:
            made[0] = conv.by_input(dy, w, x.shape)
        if output_mask[1]:
            made[1] = conv.by_filter(x, dy, w)
    if output_mask[2]:
        made[2] = c.b.reduce("sum", dy, [0, *range(2, dy.rank)])
    return made


def _transposed_gradients(
    c: Call, conv: _Convolution, dy: Node, x: Node, w: Node, groups: int, output_mask: Sequence[bool]
) -> list[Node | None]:
    """By input and filter: of each group a plain convolution of dy, and its gradient by the filter."""
    parts = list(zip(_split(c, dy, 1, groups), _split(c, x, 1, groups), _split(c, w, 0, groups), strict=True))
    by_input = c.b.concat([conv.forward(g, f) for g, _, f in parts], 1) if output_mask[0] else None
    by_filter = c.b.concat([conv.by_filter(g, p, f) for g, p, f in parts], 0) if output_mask[1] else None
    return [by_input, by_filter]
