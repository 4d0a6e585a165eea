"""The geometry that convolutions and poolings share: channels-last, any number of spatial axes.

Two views carry all of it, both over x[N, S.., C] with one `WindowAxis` per spatial axis:

    windows   forward and filter gradient: what each output position sees
              x[N, S.., C] -> [N, O.., C, K..]   out[.., o, .., k] = x[.., o*stride + k*dilation - low, ..]
    spread    input gradient: which output positions saw each input position, by kernel offset from the far end
              dy[N, O.., C] -> [N, S.., C, K..]  out[.., i, .., k] = dy[.., o, ..]
                                                 where o*stride + (kernel-1-k)*dilation - low = i, else `value`

Kernel axes of size 1 are left out of K.. (`kept` tells which remain), so that a 1x1 convolution is a plain
matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.conditions import Premises
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node


@dataclass(frozen=True)
class WindowAxis:
    """One spatial axis: input size, kernel, stride, dilation, padding before and after, output size."""

    size: Extent
    kernel: int
    stride: int
    dilation: int
    low: Extent
    high: Extent
    out: Extent

    @property
    def reach(self) -> int:
        """Distance between the first and the last element a window sees."""
        return (self.kernel - 1) * self.dilation


def padded_axis(
    premises: Premises, size: Extent, kernel: int, stride: int, dilation: int, low: int, high: int
) -> WindowAxis:
    """An axis of `size` elements with padding that is given, whose windows all lie within both."""
    room = ext.add(size, low + high - (kernel - 1) * dilation - 1)
    count = ext.div(ext.add(room, stride), stride) if premises.at_least(room) else 0
    return WindowAxis(size, kernel, stride, dilation, low, high, count)


def kept(axes: Sequence[WindowAxis]) -> list[int]:
    """The spatial axes whose kernel is larger than 1: those with a kernel axis in the views."""
    return [i for i, a in enumerate(axes) if a.kernel > 1]


def windows(b: Builder, x: Node, axes: Sequence[WindowAxis], value: float = 0) -> Node:
    """x[N, S.., C] -> [N, O.., C, K..], padded with `value`; O must not be 0."""
    x = b.pad(x, [0, *(a.low for a in axes), 0], [0, *(a.high for a in axes), 0], value)
    size, step = list(x.shape), [1] * x.rank
    for i, a in enumerate(axes):
        if a.kernel == 1:
            size[i + 1], step[i + 1] = a.out, a.stride
    x = b.slice(x, [0] * x.rank, size, step)
    many = kept(axes)
    if not many:
        return x
    chosen = [axes[i] for i in many]
    return b.window(
        x, [i + 1 for i in many], [a.kernel for a in chosen], [a.stride for a in chosen], [a.dilation for a in chosen]
    )


def reached(a: WindowAxis) -> Extent:
    """How far the first elements of the windows reach: one beyond the last of them."""
    return ext.add(ext.mul(ext.add(a.out, -1), a.stride), 1)


def at_most(n: Extent, most: int) -> int:
    """A number for a padding that must be at least n and 0: n, the most that it can be, or `most` where that is not
    known. What is too much of it is sliced off."""
    high = ext.bounds(n)[1]
    return max(most if high is None else high, 0)


def spread(b: Builder, dy: Node, axes: Sequence[WindowAxis], value: float = 0) -> Node:
    """dy[N, O.., C] -> [N, S.., C, K..] with kernel offsets counted from the far end; O must not be 0."""
    low = [ext.add(a.reach, ext.mul(a.low, -1)) for a in axes]
    high = [ext.add(ext.add(a.size, a.low), ext.mul(reached(a), -1)) for a in axes]
    before = [at_most(n, a.reach) for n, a in zip(low, axes, strict=True)]
    after = [at_most(n, a.reach + a.stride - 1) for n, a in zip(high, axes, strict=True)]
    dy = b.pad(dy, [0, *before, 0], [0, *after, 0], value, [0, *(a.stride - 1 for a in axes), 0])
    begin = [0, *(ext.add(p, ext.mul(n, -1)) for p, n in zip(before, low, strict=True)), 0]
    dy = b.slice(dy, begin, [dy.shape[0], *(ext.add(a.size, a.reach) for a in axes), dy.shape[-1]])
    many = kept(axes)
    if not many:
        return dy
    ones = [1] * len(many)
    return b.window(dy, [i + 1 for i in many], [axes[i].kernel for i in many], ones, [axes[i].dilation for i in many])


def disjoint(axes: Sequence[WindowAxis]) -> bool:
    """Whether no input element is seen by two windows."""
    return all(a.stride >= a.kernel and a.dilation == 1 or a.kernel == 1 for a in axes)


def unfold(b: Builder, x: Node, axes: Sequence[WindowAxis]) -> Node:
    """[N, O1, K1, O2, K2, .., C] -> [N, S.., C]: puts what disjoint windows hold back into place, zero elsewhere."""
    batch, channels = x.shape[0], x.shape[-1]
    gaps = [0, *(g for a in axes for g in (0, a.stride - a.kernel)), 0]
    x = b.pad(x, [0] * x.rank, gaps)
    walked = [ext.mul(a.out, a.stride) for a in axes]
    x = b.reshape(x, [batch, *walked, channels])
    left = [ext.add(ext.add(a.size, a.low), ext.mul(n, -1)) for a, n in zip(axes, walked, strict=True)]
    short = [at_most(n, a.reach) for n, a in zip(left, axes, strict=True)]
    x = b.pad(x, [0] * x.rank, [0, *short, 0])
    return b.slice(x, [0, *(a.low for a in axes), 0], [batch, *(a.size for a in axes), channels])
