"""The geometry that convolutions and poolings share: channels-last, any number of spatial axes.

Two views carry all of it, both over x[N, S.., C] with one `Axis` per spatial axis:

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
from typing import TYPE_CHECKING

from ..compiler.extent import Extent
from ..compiler.ir import Builder, Node

if TYPE_CHECKING:
    from .lower import Lowering


@dataclass(frozen=True)
class Axis:
    """One spatial axis: input size, kernel, stride, dilation, padding before and after, output size."""

    size: int
    kernel: int
    stride: int
    dilation: int
    low: int
    high: int
    out: int

    @property
    def reach(self) -> int:
        """Distance between the first and the last element a window sees."""
        return (self.kernel - 1) * self.dilation


def kept(axes: Sequence[Axis]) -> list[int]:
    """The spatial axes whose kernel is larger than 1: those with a kernel axis in the views."""
    return [i for i, a in enumerate(axes) if a.kernel > 1]


def axes_of(c: Lowering, sizes: Sequence[Extent], kernels: Sequence[int]) -> list[Axis]:
    """The axes for spatial `sizes` of the input and `kernels`, from the op's strides, dilations and padding.

    Raises the op's error for what TensorFlow itself refuses, and for spatial sizes that are not numbers.
    """
    rank = len(sizes)
    strides = c.attr("strides")
    dilations = c.attr("dilations") or [1] * (rank + 2)
    explicit = c.attr("explicit_paddings") or [0] * (2 * rank + 4)
    padding = c.attr("padding")
    if strides[0] != 1 or strides[-1] != 1 or dilations[0] != 1 or dilations[-1] != 1:
        raise c.error("strides and dilations over the batch and channel axes must be 1")
    out = []
    for i, (n, k) in enumerate(zip(sizes, kernels, strict=True)):
        if not isinstance(n, int):
            raise c.error("the spatial sizes must be known")
        s, d = strides[i + 1], dilations[i + 1]
        span = (k - 1) * d + 1
        if padding == "SAME":
            count = -(-n // s)
            total = max((count - 1) * s + span - n, 0)
            low, high = total // 2, total - total // 2
        else:
            low, high = (explicit[2 * i + 2], explicit[2 * i + 3]) if padding == "EXPLICIT" else (0, 0)
            if n + low + high - span + s < 0:
                raise c.error(f"a window of {span} does not fit in {n} elements padded by {low} and {high}")
            count = (n + low + high - span + s) // s
        out.append(Axis(n, k, s, d, low, high, count))
    return out


def check_result(c: Lowering, dy: Node, batch: Extent, axes: Sequence[Axis], channels: Extent) -> None:
    """Raises the op's error unless dy has the shape of the result, of which it is the gradient."""
    wanted = (batch, *(a.out for a in axes), channels)
    if dy.shape != wanted:
        raise c.error(f"the gradient of the result must have shape [{', '.join(map(str, wanted))}]")


def windows(b: Builder, x: Node, axes: Sequence[Axis], value: float = 0) -> Node:
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


def spread(b: Builder, dy: Node, axes: Sequence[Axis], value: float = 0) -> Node:
    """dy[N, O.., C] -> [N, S.., C, K..] with kernel offsets counted from the far end; O must not be 0."""
    low = [a.reach - a.low for a in axes]
    high = [a.size + a.low - (a.out - 1) * a.stride - 1 for a in axes]
    dy = b.pad(
        dy, [0, *(max(n, 0) for n in low), 0], [0, *(max(n, 0) for n in high), 0], value,
        [0, *(a.stride - 1 for a in axes), 0],
    )  # fmt: skip
    begin = [0, *(max(-n, 0) for n in low), 0]
    dy = b.slice(dy, begin, [dy.shape[0], *(a.size + a.reach for a in axes), dy.shape[-1]])
    many = kept(axes)
    if not many:
        return dy
    ones = [1] * len(many)
    return b.window(dy, [i + 1 for i in many], [axes[i].kernel for i in many], ones, [axes[i].dilation for i in many])


def disjoint(axes: Sequence[Axis]) -> bool:
    """Whether no input element is seen by two windows."""
    return all(a.stride >= a.kernel and a.dilation == 1 or a.kernel == 1 for a in axes)


def unfold(b: Builder, x: Node, axes: Sequence[Axis]) -> Node:
    """[N, O1, K1, O2, K2, .., C] -> [N, S.., C]: puts what disjoint windows hold back into place, zero elsewhere."""
    batch, channels = x.shape[0], x.shape[-1]
    gaps = [0, *(g for a in axes for g in (0, a.stride - a.kernel)), 0]
    x = b.pad(x, [0] * x.rank, gaps)
    x = b.reshape(x, [batch, *(a.out * a.stride for a in axes), channels])
    short = [max(a.size + a.low - a.out * a.stride, 0) for a in axes]
    x = b.pad(x, [0] * x.rank, [0, *short, 0])
    return b.slice(x, [0, *(a.low for a in axes), 0], [batch, *(a.size for a in axes), channels])
