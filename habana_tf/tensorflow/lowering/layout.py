"""Ops that pad, and that move blocks between axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from habana_tf.formulas import padding
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.arguments import extents, ints
from habana_tf.tensorflow.lowering.channels import channels_last
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import ALL, INDEX, NUMERIC, op

# -- padding --------------------------------------------------------------------------------------------------


def _paddings(c: Lowering) -> list[tuple[Extent, Extent]]:
    flat, rank = extents(c, "paddings"), c.inputs[0].rank
    if len(flat) != 2 * rank or not all(c.at_least(p) for p in flat):
        raise c.error(f"paddings must be {rank} pairs of non-negative numbers")
    return list(zip(flat[::2], flat[1::2], strict=True))


@op("Pad", fixed=["paddings"], generic="padding", T=ALL, Tpaddings=INDEX)
def pad(c: Lowering) -> Node:
    low, high = _ends(_paddings(c))
    return c.b.pad(c.inputs[0], low, high)


@op("PadV2", fixed=["paddings"], generic="padding", T=ALL, Tpaddings=INDEX)
def pad_v2(c: Lowering) -> Node:
    low, high = _ends(_paddings(c))
    return c.b.pad(c.inputs[0], low, high, c.inputs[2])


def _ends(pairs: Sequence[tuple[Extent, Extent]]) -> tuple[list[Extent], list[Extent]]:
    return [p[0] for p in pairs], [p[1] for p in pairs]


def _skipped(c: Lowering) -> int:
    """The distance of a mirror from the edge: 1 for REFLECT, 0 for SYMMETRIC."""
    return 1 if c.attr("mode") == "REFLECT" else 0


def _check_mirrored(c: Lowering, axis: int, n: Extent, low: Extent, high: Extent) -> None:
    """Paddings must not exceed what a mirror shows at most of an axis of `n`."""
    last = ext.add(n, -_skipped(c))
    if not (low == high == 0 or (c.at_least(last, low) and c.at_least(last, high))):
        raise c.error(f"paddings {low} and {high} must be no greater than {last} on axis {axis}")


@op("MirrorPad", fixed=["paddings"], T=ALL, Tpaddings=INDEX)
def mirror_pad(c: Lowering) -> Node:
    b, x = c.b, c.inputs[0]
    pairs, skip = _paddings(c), _skipped(c)
    for axis, (low, high) in enumerate(pairs):
        _check_mirrored(c, axis, x.shape[axis], low, high)
        before, after = padding.mirrored(b, x, axis, low, high, skip)
        x = b.concat([before, x, after], axis)
    return x


@op("MirrorPadGrad", fixed=["paddings"], T=NUMERIC, Tpaddings=INDEX)
def mirror_pad_grad(c: Lowering) -> Node:
    """The middle, plus what the mirrors showed added back to where it came from."""
    b, x = c.b, c.inputs[0]
    dtype = x.dtype
    x = b.cast(x, dtype.accumulator)
    pairs, skip = _paddings(c), _skipped(c)
    for axis, (low, high) in enumerate(pairs):
        _check_mirrored(c, axis, padding.less(x.shape[axis], ext.add(low, high)), low, high)
        x = padding.mirrored_gradient(b, x, axis, low, high, skip)
    return b.cast(x, dtype)


# -- blocks ---------------------------------------------------------------------------------------------------


def _parts(c: Lowering, n: Extent, k: int, what: str) -> Extent:
    """How many blocks of k a size has, which must be a multiple of it."""
    count = ext.divide(n, k)
    if count is None and not isinstance(n, int):
        raise c.needs_number(f"whether {what} is a multiple of {k} depends on its size, {n}")
    if count is None:
        raise c.error(f"{what} of {n} must be a multiple of the block size {k}")
    return count


@op("SpaceToDepth", T=ALL)
@channels_last("input")
def space_to_depth(c: Lowering) -> Node:
    b, x, k = c.b, c.inputs[0], c.attr("block_size")
    c.require(x.rank == 4, "an input of rank 4 is needed")
    n, h, w, d = x.shape
    rows, columns, depth = _parts(c, h, k, "a height"), _parts(c, w, k, "a width"), ext.mul(d, k * k)
    split = b.permute(b.reshape(x, (n, rows, k, columns, k, d)), (0, 1, 3, 2, 4, 5))
    return b.reshape(split, (n, rows, columns, depth))


@op("DepthToSpace", T=ALL)
@channels_last("input")
def depth_to_space(c: Lowering) -> Node:
    b, x, k = c.b, c.inputs[0], c.attr("block_size")
    c.require(x.rank == 4, "an input of rank 4 is needed")
    n, h, w, depth = x.shape
    d = _parts(c, depth, k * k, "a depth")
    split = b.permute(b.reshape(x, (n, h, w, k, k, d)), (0, 1, 3, 2, 4, 5))
    return b.reshape(split, (n, ext.mul(h, k), ext.mul(w, k), d))


def _blocks(c: Lowering, which: str) -> tuple[list[int], list[tuple[Extent, Extent]]]:
    """block_shape, and the pairs of `which` for the axes 1, 2, ... that it speaks of."""
    blocks, flat = ints(c, "block_shape"), extents(c, which)
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
    batch, space = x.shape[0], x.shape[1:]
    parts = [_parts(c, n, k, "a padded size") for n, k in zip(space[:m], blocks, strict=True)]
    split = [s for n, k in zip(parts, blocks, strict=True) for s in (n, k)]
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
    batch, space = ext.divide(x.shape[0], math.prod(blocks)), x.shape[1:]
    if batch is None and not isinstance(x.shape[0], int):
        raise c.needs_number(f"whether the batch splits into blocks {blocks} depends on its size")
    if batch is None:
        raise c.error(f"the batch does not split into blocks {blocks}")
    x = b.reshape(x, (*blocks, batch, *space))
    woven = [a for i in range(m) for a in (m + 1 + i, i)]
    x = b.permute(x, [m, *woven, *range(2 * m + 1, x.rank)])
    grown = [ext.mul(n, k) for n, k in zip(space[:m], blocks, strict=True)]
    x = b.reshape(x, (batch, *grown, *space[m:]))
    for i, (low, high) in enumerate(pairs):
        left = ext.add(grown[i], ext.mul(ext.add(low, high), -1))
        if not (c.at_least(low) and c.at_least(high) and c.at_least(left)):
            raise c.error(f"crops {low} and {high} do not fit a size of {grown[i]}")
        x = c.b.along(x, i + 1, low, left)
    return x
