"""XLA's dynamic slices, which the key-value caches of text generation are made of.

Where a slice begins is a run-time value and no part of the recipe's key. As XLA documents it, a start is first brought
into the range in which the slice fits: out of range in either direction is no error. Other ops of XLA stay with
TensorFlow on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.arguments import extents
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import ALL, INDEX, op
from habana_tf.tensorflow.lowering.slicing import AxisSlice, cut_out, element, put_in


def _cuts(c: Lowering, shape: Sequence[Extent], starts: Node, sizes: Sequence[Extent]) -> list[AxisSlice]:
    """What is cut of each axis, from where `starts` says once it is clamped."""
    b = c.b
    if starts.shape != (len(shape),) or len(sizes) != len(shape):
        raise c.error(f"there must be one start and one size for each of {len(shape)} axes")
    out = []
    for axis, (n, size) in enumerate(zip(shape, sizes, strict=True)):
        room = ext.add(n, ext.mul(size, -1))
        if ext.bounds(size)[0] < 0 or ext.bounds(room)[0] < 0:
            raise c.error(f"a slice of {size} does not fit axis {axis} of size {n}")
        if room == 0:
            out.append(AxisSlice(0, size))
            continue
        start = b.map("min", element(c, starts, axis), b.extent(room, starts.dtype))
        out.append(AxisSlice(0, size, 1, b.map("max", start, b.const(0, starts.dtype))))
    return out


@op("XlaDynamicSlice", fixed=["size_indices"], T=ALL, Tindices=INDEX)
def dynamic_slice(c: Lowering) -> Node:
    """`size_indices` elements per axis from `start_indices` on, which are clamped so that the slice fits."""
    x = c.input("input")
    return cut_out(c, x, _cuts(c, x.shape, c.input("start_indices"), extents(c, "size_indices")))


@op("XlaDynamicUpdateSlice", T=ALL, Tindices=INDEX)
def dynamic_update_slice(c: Lowering) -> Node:
    """`input` with `update` from `indices` on, which are clamped so that it fits."""
    x, update = c.input("input"), c.input("update")
    c.require(update.rank == x.rank, f"update must have rank {x.rank}, not {update.rank}")
    return put_in(c, x, update, _cuts(c, x.shape, c.input("indices"), update.shape))
