"""Convolutions, over one to three axes, and their gradients.

A transposed convolution is the gradient of a plain one by its input: what comes in is what the plain one puts out. So
its filter [in, out of a group, ...] is the plain one's [out, in of a group, ...], and its own gradients are a plain
convolution and that one's gradient by the filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from habana_tf.formulas.convolution import Convolution
from habana_tf.formulas.spatial import padded_axis
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, overload


def _plain(
    c: Call, wide: Sequence[Extent], narrow: Sequence[Extent], w: Node, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int,
) -> Convolution:  # fmt: skip
    """The plain convolution with a filter w [out, in of a group, ...]. wide, narrow: the shapes [N, C, ...] of what it
    takes and gives."""
    rank = len(wide) - 2
    if rank not in (1, 2, 3) or 0 in (*wide, *narrow):
        raise c.refused("a convolution of nothing or over more than three axes")
    outer, inner, *kernels = c.numbers(w.shape)
    each = [list(n) * rank if len(n) == 1 else n for n in (stride, dilation, padding)]
    sizes = zip(wide[2:], kernels, *each, strict=True)
    axes = [padded_axis(c.context.premises, n, k, s, d, p, p) for n, k, s, d, p in sizes]
    if [a.out for a in axes] != [*narrow[2:]]:
        raise c.refused(f"a convolution of {list(wide)} that gives {list(narrow)}")
    return Convolution(c.b, axes, inner, outer, groups)


def _last(c: Call, x: Node) -> Node:
    """[N, C, ...] with its channels last."""
    return c.b.permute(x, (0, *range(2, x.rank), 1))


def _first(c: Call, x: Node) -> Node:
    """The reverse."""
    return c.b.permute(x, (0, x.rank - 1, *range(1, x.rank - 1)))


def _turned(c: Call, w: Node) -> Node:
    """A filter [out, in, ...] as [..., in, out]."""
    return c.b.permute(w, (*range(2, w.rank), 1, 0))


@overload("convolution_overrideable", stock="convolution", floats=True, pictures=[0, 1])
def convolution(
    c: Call, x: Node, w: Node, bias: Node | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Node:  # fmt: skip
    wide, narrow = (c.shape, x.shape) if transposed else (x.shape, c.shape)
    plain = _plain(c, wide, narrow, w, stride, padding, dilation, groups)
    last, turned = _last(c, x), _turned(c, w)
    made = _first(c, plain.input_gradient(turned, last) if transposed else plain.forward(last, turned))
    return made if bias is None else c.b.map("add", made, c.b.broadcast_in_dim(bias, made.shape, (1,)))


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
    wide, narrow = (dy, x) if transposed else (x, dy)
    plain = _plain(c, wide.shape, narrow.shape, w, stride, padding, dilation, groups)
    made: list[Node | None] = [None, None, None]
    if output_mask[0]:
        grad, turned = _last(c, dy), _turned(c, w)
        made[0] = _first(c, plain.forward(grad, turned) if transposed else plain.input_gradient(turned, grad))
    if output_mask[1]:
        by_filter = plain.filter_gradient(_last(c, wide), _last(c, narrow))
        made[1] = c.b.permute(by_filter, (w.rank - 1, w.rank - 2, *range(w.rank - 2)))
    if output_mask[2]:
        made[2] = c.b.reduce("sum", dy, [0, *range(2, dy.rank)])
    return made
