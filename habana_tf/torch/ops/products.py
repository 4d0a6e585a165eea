"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from habana_tf.ir.primitives import Contraction, Node
from habana_tf.torch.ops.row import Call, Operand, overload

_FIRST, _LAST = (0, 3, 1, 2), (0, 2, 3, 1)
"""Axes of channels-last pictures as channels-first ones, and the reverse."""


def _product(c: Call, a: Node, b: Node) -> Node:
    """a @ b, of matrices or of batches of them."""
    batch = tuple(range(3, 1 + a.rank))
    spec = Contraction((*batch, 0, 1), (*batch, 1, 2), (*batch, 0, 2), a.dtype.accumulator)
    return c.b.contract(a, b, spec)


@overload("mm", floats=True)
def mm(c: Call, a: Node, b: Node) -> Node:
    return _product(c, a, b)


@overload("bmm", floats=True)
def bmm(c: Call, a: Node, b: Node) -> Node:
    return _product(c, a, b)


@overload("addmm", "addmm_", runtime=["beta", "alpha"], floats=True)
@overload("baddbmm", "baddbmm_", runtime=["beta", "alpha"], floats=True)
def addmm(c: Call, x: Node, a: Node, b: Node, beta: Operand = 1, alpha: Operand = 1) -> Node:
    made = c.term(_product(c, a, b))
    if alpha != 1:
        made = made * c.term(alpha)
    if beta == 0:
        return made.node
    added = c.term(x)
    return (made + (added if beta == 1 else added * c.term(beta))).node


def _attrs(stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]) -> dict[str, object]:
    """Attributes of Conv2D of a convolution over two axes."""
    sides = [n for p in padding for n in (p, p)]
    return {
        "strides": [1, *stride, 1], "dilations": [1, *dilation, 1], "padding": "EXPLICIT",
        "explicit_paddings": [0, 0, *sides, 0, 0],
    }  # fmt: skip


def _refuse(c: Call, x: Node, transposed: bool) -> None:
    if transposed or x.rank != 4:
        raise c.refused("a convolution that is transposed or over another number of axes than two")


@overload("convolution_overrideable", stock="convolution", floats=True)
def convolution(
    c: Call, x: Node, w: Node, bias: Node | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Node:  # fmt: skip
    _refuse(c, x, transposed)
    b = c.b
    inputs = {"input": b.permute(x, _LAST), "filter": b.permute(w, (2, 3, 1, 0))}
    (made,) = c.existing("Conv2D", inputs, **_attrs(stride, padding, dilation))
    made = b.permute(made, _FIRST)
    return made if bias is None else b.map("add", made, b.broadcast_in_dim(bias, made.shape, (1,)))


def _with_bias_sizes(dy: Any, x: Any, w: Any, *rest: Any) -> Sequence[Any]:
    """The arguments of `convolution_backward`."""
    return (dy, x, w, [dy.shape[1]], *rest)


@overload("convolution_backward_overrideable", stock="convolution_backward", given=_with_bias_sizes, floats=True)
def convolution_backward(
    c: Call, dy: Node, x: Node, w: Node, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
    transposed: bool, output_padding: Sequence[int], groups: int, output_mask: Sequence[bool],
) -> list[Node | None]:  # fmt: skip
    _refuse(c, x, transposed)
    b, attrs = c.b, _attrs(stride, padding, dilation)
    last, filter_, grad = b.permute(x, _LAST), b.permute(w, (2, 3, 1, 0)), b.permute(dy, _LAST)
    made: list[Node | None] = [None, None, None]
    if output_mask[0]:
        sizes = c.literal([int(str(n)) for n in last.shape])
        inputs = {"input_sizes": sizes, "filter": filter_, "out_backprop": grad}
        made[0] = b.permute(c.existing("Conv2DBackpropInput", inputs, **attrs)[0], _FIRST)
    if output_mask[1]:
        sizes = c.literal([int(str(n)) for n in filter_.shape])
        inputs = {"input": last, "filter_sizes": sizes, "out_backprop": grad}
        made[1] = b.permute(c.existing("Conv2DBackpropFilter", inputs, **attrs)[0], (3, 2, 0, 1))
    if output_mask[2]:
        made[2] = b.reduce("sum", dy, [0, 2, 3])
    return made
