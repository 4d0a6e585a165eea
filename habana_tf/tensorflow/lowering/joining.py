"""Tensors joined and split along an axis."""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.arguments import axis_of, extents, insert_axis, scalar
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import ALL, INDEX, op


def _joined(c: Lowering, parts: Sequence[Node], axis: int) -> Node:
    axis = axis_of(c, axis, parts[0].rank)
    for p in parts:
        if p.rank != parts[0].rank or any(
            m != n for a, (m, n) in enumerate(zip(p.shape, parts[0].shape, strict=True)) if a != axis
        ):
            raise c.error(f"the parts must agree in all axes but axis {axis}")
    return c.b.concat(parts, axis)


op("ConcatV2", fixed=["axis"], T=ALL, Tidx=INDEX)(lambda c: _joined(c, c.input_list("values"), scalar(c, "axis")))
op("Concat", fixed=["concat_dim"], T=ALL)(lambda c: _joined(c, c.input_list("values"), scalar(c, "concat_dim")))


@op("Pack", T=ALL)
def pack(c: Lowering) -> Node:
    axis = axis_of(c, c.attr("axis", 0), c.inputs[0].rank + 1)
    c.require(all(x.shape == c.inputs[0].shape for x in c.inputs), "all parts must have one shape")
    return c.b.concat([insert_axis(c, x, axis) for x in c.inputs], axis)


@op("Unpack", T=ALL)
def unpack(c: Lowering) -> Sequence[Node]:
    (x,), num = c.inputs, c.attr("num")
    axis = axis_of(c, c.attr("axis", 0), x.rank)
    c.require(x.shape[axis] == num, f"axis {axis} must have size num = {num}")
    rest = [n for a, n in enumerate(x.shape) if a != axis]
    return [c.b.reshape(c.b.along(x, axis, i, 1), rest) for i in range(num)]


@op("Split", fixed=["split_dim"], T=ALL)
def split(c: Lowering) -> Sequence[Node]:
    x, num = c.input("value"), c.attr("num_split")
    axis = axis_of(c, scalar(c, "split_dim"), x.rank)
    each = ext.divide(x.shape[axis], num)
    if each is None and not isinstance(x.shape[axis], int):
        raise c.needs_number(f"whether axis {axis} splits into {num} equal parts depends on its size")
    if each is None:
        raise c.error(f"axis {axis} does not split into {num} equal parts")
    return [c.b.along(x, axis, ext.mul(each, i), each) for i in range(num)]


@op("SplitV", fixed=["size_splits", "split_dim"], T=ALL, Tlen=(DType.I8, *INDEX))
def split_v(c: Lowering) -> Sequence[Node]:
    x, sizes = c.input("value"), extents(c, "size_splits")
    axis = axis_of(c, scalar(c, "split_dim"), x.rank)
    n = x.shape[axis]
    if len(sizes) != c.attr("num_split"):
        raise c.error(f"size_splits {sizes} must have one number for each of {c.attr('num_split')} parts")
    if sizes.count(-1) == 1:
        rest = n
        for s in sizes:
            rest = ext.add(rest, ext.mul(s, -1) if s != -1 else 0)
        sizes[sizes.index(-1)] = rest
    starts: list[Extent] = [0]
    for s in sizes:
        starts.append(ext.add(starts[-1], s))
    if not all(c.at_least(s) for s in sizes) or not c.premises.equal(starts[-1], n):
        raise c.error(f"size_splits {sizes} must be non-negative and sum to {n}, the size of axis {axis}")
    return [c.b.along(x, axis, at, s) for at, s in zip(starts, sizes, strict=False)]
