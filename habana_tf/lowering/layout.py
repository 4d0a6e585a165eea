"""Ops that pad, and that move blocks between axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..compiler import extent as ext
from ..compiler.ir import Node
from .array import constant_shape, ints, static_slice
from .lower import Lowering
from .table import ALL, INDEX, NUMERIC, op

# -- padding --------------------------------------------------------------------------------------------------


def _paddings(c: Lowering, which: str = "paddings") -> list[tuple[int, int]]:
    flat, rank = ints(c, which), c.inputs[0].rank
    if len(flat) != 2 * rank or any(p < 0 for p in flat):
        raise c.error(f"{which} must be {rank} pairs of non-negative numbers")
    return list(zip(flat[::2], flat[1::2], strict=True))


@op("Pad", fixed=["paddings"], T=ALL, Tpaddings=INDEX)
def pad(c: Lowering) -> Node:
    low, high = _ends(_paddings(c))
    return c.b.pad(c.inputs[0], low, high)


@op("PadV2", fixed=["paddings"], T=ALL, Tpaddings=INDEX)
def pad_v2(c: Lowering) -> Node:
    low, high = _ends(_paddings(c))
    return c.b.pad(c.inputs[0], low, high, c.inputs[2])


def _ends(pairs: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [p[0] for p in pairs], [p[1] for p in pairs]


def _mirrored(c: Lowering) -> tuple[list[tuple[int, int]], int]:
    """The paddings of a mirror op, and the distance of the mirror from the edge: 1 for REFLECT, 0 for SYMMETRIC."""
    return _paddings(c), 1 if c.attr("mode") == "REFLECT" else 0


@op("MirrorPad", fixed=["paddings"], T=ALL, Tpaddings=INDEX)
def mirror_pad(c: Lowering) -> Node:
    b, x = c.b, c.inputs[0]
    pairs, skip = _mirrored(c)
    for axis, (low, high) in enumerate(pairs):
        if not isinstance(x.shape[axis], int) and not low and not high:
            continue
        n = constant_shape(c, x, axis)[0]
        if max(low, high) > n - skip:
            raise c.error(f"paddings {low} and {high} must be no greater than {n - skip} on axis {axis}")
        before = b.reverse(static_slice(c, x, axis, skip, low), [axis])
        after = b.reverse(static_slice(c, x, axis, n - skip - high, high), [axis])
        x = b.concat([before, x, after], axis)
    return x


@op("MirrorPadGrad", fixed=["paddings"], T=NUMERIC, Tpaddings=INDEX)
def mirror_pad_grad(c: Lowering) -> Node:
    """The middle, plus what the mirrors showed added back to where it came from."""
    b, x = c.b, c.inputs[0]
    dtype = x.dtype
    x = b.cast(x, dtype.accumulator)
    pairs, skip = _mirrored(c)
    for axis, (low, high) in enumerate(pairs):
        if not isinstance(x.shape[axis], int) and not low and not high:
            continue
        n = constant_shape(c, x, axis)[0] - low - high
        if max(low, high) > n - skip:
            raise c.error(f"paddings {low} and {high} must be no greater than {n - skip} on axis {axis}")
        out = static_slice(c, x, axis, low, n)
        for size, at, put in ((low, 0, skip), (high, low + n, n - skip - high)):
            if size:
                part = b.reverse(static_slice(c, x, axis, at, size), [axis])
                before, after = [0] * x.rank, [0] * x.rank
                before[axis], after[axis] = put, n - size - put
                out = b.map("add", out, b.pad(part, before, after))
        x = out
    return b.cast(x, dtype)


# -- blocks ---------------------------------------------------------------------------------------------------


def _channels_last(c: Lowering) -> bool:
    layout = c.attr("data_format", "NHWC")
    if layout not in ("NHWC", "NCHW") or c.inputs[0].rank != 4:
        raise c.error(f"needs 4 axes in the layout NHWC or NCHW, not {layout}")
    return bool(layout == "NHWC")


@op("SpaceToDepth", T=ALL)
def space_to_depth(c: Lowering) -> Node:
    b, x, k = c.b, c.inputs[0], c.attr("block_size")
    last = _channels_last(c)
    x_last = x if last else b.permute(x, (0, 2, 3, 1))
    n, (h, w, d) = x.shape[0], constant_shape(c, x_last, 1)
    if h % k or w % k:
        raise c.error(f"height {h} and width {w} must be multiples of the block size {k}")
    if last:
        split = b.permute(b.reshape(x, (n, h // k, k, w // k, k, d)), (0, 1, 3, 2, 4, 5))
        return b.reshape(split, (n, h // k, w // k, k * k * d))
    split = b.permute(b.reshape(x, (n, d, h // k, k, w // k, k)), (0, 3, 5, 1, 2, 4))
    return b.reshape(split, (n, k * k * d, h // k, w // k))


@op("DepthToSpace", T=ALL)
def depth_to_space(c: Lowering) -> Node:
    b, x, k = c.b, c.inputs[0], c.attr("block_size")
    last = _channels_last(c)
    x_last = x if last else b.permute(x, (0, 2, 3, 1))
    n, (h, w, d) = x.shape[0], constant_shape(c, x_last, 1)
    if d % (k * k):
        raise c.error(f"depth {d} must be a multiple of the squared block size {k * k}")
    d //= k * k
    if last:
        split = b.permute(b.reshape(x, (n, h, w, k, k, d)), (0, 1, 3, 2, 4, 5))
        return b.reshape(split, (n, h * k, w * k, d))
    split = b.permute(b.reshape(x, (n, k, k, d, h, w)), (0, 3, 4, 1, 5, 2))
    return b.reshape(split, (n, d, h * k, w * k))


def _blocks(c: Lowering, which: str) -> tuple[list[int], list[tuple[int, int]]]:
    """block_shape, and the pairs of `which` for the axes 1, 2, ... that it speaks of."""
    blocks, flat = ints(c, "block_shape"), ints(c, which)
    if len(flat) != 2 * len(blocks) or len(blocks) >= c.inputs[0].rank or min(blocks, default=1) < 1:
        raise c.error(f"block_shape {blocks} and {which} {flat} do not fit the input")
    return blocks, list(zip(flat[::2], flat[1::2], strict=True))


@op("SpaceToBatchND", fixed=["block_shape", "paddings"], T=ALL, Tblock_shape=INDEX, Tpaddings=INDEX)
def space_to_batch(c: Lowering) -> Node:
    b, x = c.b, c.inputs[0]
    blocks, pairs = _blocks(c, "paddings")
    m, rest = len(blocks), x.rank - 1 - len(blocks)
    low, high = _ends([(0, 0), *pairs, *[(0, 0)] * rest])
    x = b.pad(x, low, high)
    batch, space = x.shape[0], constant_shape(c, x, 1)
    if any(n % k for n, k in zip(space[:m], blocks, strict=True)):
        raise c.error(f"padded sizes {space[:m]} must be multiples of block_shape {blocks}")
    split = [s for n, k in zip(space[:m], blocks, strict=True) for s in (n // k, k)]
    x = b.reshape(x, (batch, *split, *space[m:]))
    inside, outside = [2 * i + 2 for i in range(m)], [2 * i + 1 for i in range(m)]
    x = b.permute(x, [*inside, 0, *outside, *range(2 * m + 1, x.rank)])
    batch = ext.product((batch, *blocks))
    return b.reshape(x, (batch, *split[::2], *space[m:]))


@op("BatchToSpaceND", fixed=["block_shape", "crops"], T=ALL, Tblock_shape=INDEX, Tcrops=INDEX)
def batch_to_space(c: Lowering) -> Node:
    b, x = c.b, c.inputs[0]
    blocks, pairs = _blocks(c, "crops")
    m = len(blocks)
    batch, space = ext.divide(x.shape[0], math.prod(blocks)), constant_shape(c, x, 1)
    if batch is None:
        raise c.error(f"the batch does not split into blocks {blocks}")
    x = b.reshape(x, (*blocks, batch, *space))
    woven = [a for i in range(m) for a in (m + 1 + i, i)]
    x = b.permute(x, [m, *woven, *range(2 * m + 1, x.rank)])
    grown = [n * k for n, k in zip(space[:m], blocks, strict=True)]
    x = b.reshape(x, (batch, *grown, *space[m:]))
    for i, (low, high) in enumerate(pairs):
        if low < 0 or high < 0 or low + high > grown[i]:
            raise c.error(f"crops {low} and {high} do not fit a size of {grown[i]}")
        x = static_slice(c, x, i + 1, low, grown[i] - low - high)
    return x
