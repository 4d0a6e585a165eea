"""Average pooling and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.torch.ops.row import Call, overload
from habana_tf.torch.ops.taps import Taps, summed


def _each(values: Sequence[int] | int, rank: int, default: Sequence[int] = ()) -> list[int]:
    given = [values] if isinstance(values, int) else list(values) or list(default)
    return given * rank if len(given) == 1 else given


class _Average:
    """Average pooling over the last axes. divisor: what each sum is divided by, over the axes of the result."""

    def __init__(
        self, rank: int, sizes: Sequence[int], out: Sequence[int], kernel: Sequence[int], stride: Sequence[int],
        padding: Sequence[int], include_pad: bool, divisor: int | None,
    ) -> None:  # fmt: skip
        self.rank, self.sizes, self.out = rank, sizes, out
        self.kernel, self.stride, self.padding = kernel, stride, padding
        reach = [(o - 1) * s + k for o, s, k in zip(out, stride, kernel, strict=True)]
        self.high = [max(r - n - p, 0) for r, n, p in zip(reach, sizes, padding, strict=True)]
        counts = np.ones((), np.float32)
        for n, o, k, s, p in zip(sizes, out, kernel, stride, padding, strict=True):
            first = np.arange(o) * s - p
            last = np.minimum(first + k, n + p)
            held = last - first if include_pad else np.minimum(last, n) - np.maximum(first, 0)
            counts = np.multiply.outer(counts, held.astype(np.float32))
        self.divisor = np.full_like(counts, divisor) if divisor else counts

    @classmethod
    def of(
        cls, c: Call, x: Node, out: Sequence[Extent], kernel: Any, stride: Any, padding: Any, *rest: Any
    ) -> _Average:
        rank = len(out)
        sizes, out = c.numbers(x.shape[-rank:]), c.numbers(out)
        kernels = _each(kernel, rank)
        return cls(rank, sizes, out, kernels, _each(stride, rank, kernels), _each(padding, rank), *rest)

    def forward(self, c: Call, x: Node) -> Node:
        b, rest = c.b, x.rank - self.rank
        padded = b.pad(x, (*[0] * rest, *self.padding), (*[0] * rest, *self.high))
        axes = range(rest, x.rank)
        view = b.window(padded, tuple(axes), self.kernel, self.stride)
        view = b.slice(view, [0] * view.rank, (*x.shape[:rest], *self.out, *self.kernel))
        added = b.reduce("sum", b.cast(view, DType.F32), list(range(x.rank, view.rank)))
        return b.binary("div", added, b.literal(self.divisor))

    def backward(self, c: Call, dy: Node) -> Node:
        """Each share goes to all elements of its window."""
        b, first = c.b, dy.rank - self.rank
        grad = b.binary("div", b.cast(dy, DType.F32), b.literal(self.divisor))
        for k in range(self.rank):
            size, kernel = self.sizes[k], self.kernel[k]
            at = (np.arange(self.out[k]) * self.stride[k] - self.padding[k])[:, None] + np.arange(kernel)
            places = np.where((at >= 0) & (at < size), at, -1).astype(np.int32)
            grad = summed(c, grad, first + k, Taps(places, np.ones(at.shape, np.float32)).transposed(size))
        return grad


@overload("avg_pool2d", "avg_pool3d", floats=True)
def average_pool(
    c: Call, x: Node, kernel: Sequence[int], stride: Sequence[int] = (), padding: Sequence[int] | int = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Node:  # fmt: skip
    rank = 2 if c.name == "avg_pool2d" else 3
    if 0 in c.shape:
        return c.b.const(0, c.dtype, c.shape)
    pool = _Average.of(c, x, c.shape[-rank:], kernel, stride, padding, count_include_pad, divisor_override)
    return pool.forward(c, x)


@overload("avg_pool2d_backward", "avg_pool3d_backward", floats=True)
def average_pool_backward(
    c: Call, dy: Node, x: Node, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int] | int,
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> Node:  # fmt: skip
    rank = 2 if c.name == "avg_pool2d_backward" else 3
    if 0 in dy.shape:
        return c.b.const(0, c.dtype, c.shape)
    return _Average.of(c, x, dy.shape[-rank:], kernel, stride, padding, count_include_pad, divisor_override).backward(
        c, dy
    )
