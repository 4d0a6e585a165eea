"""Ops that make and reorder tensors without arithmetic: mostly views.

Outside clusters TensorFlow's own DEFAULT kernels run many of them (Reshape, Shape, Identity...) without a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from habana_tf.ir import extent as ext
from habana_tf.ir.builder import broadcast_shapes
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node, Shape
from habana_tf.tensorflow.lowering.arguments import axis_of, extents, insert_axis, ints, scalar, scalar_extent
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import ALL, FLOATS, INDEX, op

# -- identities -----------------------------------------------------------------------------------------------


op("Identity", "Snapshot", "StopGradient", "PreventGradient", T=ALL)(lambda c: c.inputs[0])
op("IdentityN")(lambda c: c.inputs)


@op("EnsureShape", T=ALL)
def ensure_shape(c: Lowering) -> Node:
    (x,), wanted = c.inputs, c.attr("shape")
    if wanted is not None:
        fits = len(wanted) == x.rank and all(w in (-1, n) for w, n in zip(wanted, x.shape, strict=True))
        c.require(fits, f"the tensor's shape is not compatible with the expected shape {list(wanted)}")
    return x


# -- creation -------------------------------------------------------------------------------------------------


op("Const", dtype=ALL)(lambda c: c.b.literal(c.attr("value")))


def _filled(c: Lowering, value: Node) -> Node:
    """`value` in the shape that the first fixed input holds, which is symbolic in a generic recipe."""
    shape = extents(c, c.row.fixed[0])
    c.require(all(not isinstance(n, int) or n >= 0 for n in shape), f"dims {shape} must be non-negative")
    return c.b.expand(value, shape)


@op("Fill", fixed=["dims"], generic="fill", T=ALL, index_type=INDEX)
def fill(c: Lowering) -> Node:
    value = c.inputs[1]
    c.require(value.shape in ((), (1,)), "value must be a scalar")
    return _filled(c, c.b.reshape(value, ()))


op("Empty", fixed=["shape"], generic="fill", dtype=ALL)(lambda c: _filled(c, c.b.const(0, c.attr("dtype"))))
op("ZerosLike", generic="elementwise", T=ALL)(lambda c: c.b.const(0, c.inputs[0].dtype, c.inputs[0].shape))
op("OnesLike", generic="elementwise", T=ALL)(lambda c: c.b.const(1, c.inputs[0].dtype, c.inputs[0].shape))


@op("Range", fixed=["start", "limit", "delta"], Tidx=(DType.F32, DType.BF16, DType.I32, DType.I64))
def range_(c: Lowering) -> Node:
    """start + i * delta; only the count is a constant, so that ranges of one length share a recipe."""
    n = _range_size(c)
    b, dtype = c.b, c.inputs[0].dtype
    wide = dtype.accumulator
    first, step = (b.expand(b.cast(c.inputs[i], wide), (n,)) for i in (0, 2))
    steps = b.cast(b.iota((n,), 0, DType.I64), wide)
    return b.cast(b.map("add", first, b.map("mul", steps, step)), dtype)


def _range_size(c: Lowering) -> Extent:
    values = [np.asarray(c.value(i)) for i in range(3)]
    if any(v.dtype == object for v in values):
        (start,), (limit,), (delta,) = (extents(c, i) for i in range(3))
        step = delta
        way = ext.add(limit, ext.mul(start, -1))
        if not isinstance(delta, int):  # 0, 72, 144, ... in steps of a size: as many as the limit has of it
            count = ext.divide(way, delta) if c.at_least(delta, 1) else None
            if count is None:
                raise c.needs_number(f"its step {delta} follows from a size that changes")
            return count
        if delta < 0:
            way, delta = ext.mul(way, -1), -delta
        c.require(delta != 0 and c.at_least(way), f"a range from {start} to {limit} does not go with delta {step}")
        return ext.div(ext.add(way, delta - 1), delta)
    c.require(all(x.rank <= 1 and x.numel == 1 for x in c.inputs), "start, limit and delta must be scalars")
    numbers = (v.astype(x.dtype.numpy).reshape(()) for v, x in zip(values, c.inputs, strict=True))
    return _number_of_steps(c, *numbers)


def _number_of_steps(c: Lowering, start: Any, limit: Any, delta: Any) -> int:
    """How long a range is; these are NumPy scalars of its type, to which every step of the sum is rounded."""
    c.require(delta != 0, "delta must not be zero")
    if not (start <= limit if delta > 0 else start >= limit):
        raise c.error(f"a range from {start} to {limit} does not go with delta {delta}")
    if c.inputs[0].dtype.is_int:
        return -int((start.item() - limit.item()) // delta.item())
    with np.errstate(all="ignore"):  # what overflows or is NaN is refused below
        size = float(np.ceil(abs((limit - start) / delta)))
    c.require(size < 2.0**63, f"a range from {start} to {limit} by {delta} has no end")
    return int(size)


@op("LinSpace", fixed=["num"], T=FLOATS, Tidx=INDEX)
def lin_space(c: Lowering) -> Node:
    """start + i * (stop - start) / (num - 1), and exactly start and stop at the ends, also where they are infinite."""
    n = scalar_extent(c, "num")
    c.require(c.at_least(n, 1), f"num must be positive, not {n}")
    last_step = ext.add(n, -1) if c.at_least(n, 2) else 1
    b, dtype = c.b, c.inputs[0].dtype
    start, stop = (b.expand(b.cast(x, dtype.accumulator), (n,)) for x in c.inputs[:2])
    step = b.map("div", b.map("sub", stop, start), b.expand(b.extent(last_step, dtype.accumulator), (n,)))
    i = b.iota((n,), 0, DType.I32)
    line = b.map("add", start, b.map("mul", b.cast(i, dtype.accumulator), step))
    last = b.map("eq", i, b.expand(b.extent(last_step, DType.I32), (n,)))  # of one element none is
    first = b.map("eq", i, b.const(0, DType.I32, (n,)))
    return b.cast(b.select(first, start, b.select(last, stop, line)), dtype)


@op("OneHot", fixed=["depth"], T=ALL, TI=(DType.U8, DType.I8, *INDEX))
def one_hot(c: Lowering) -> Node:
    b, (indices, _, on, off) = c.b, c.inputs
    depth = scalar_extent(c, "depth")
    c.require(c.at_least(depth), f"depth must be non-negative, not {depth}")
    axis = indices.rank if c.attr("axis", -1) == -1 else axis_of(c, c.attr("axis"), indices.rank + 1)
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])
    here = b.expand(b.cast(insert_axis(c, indices, axis), DType.I64), shape)
    return b.select(b.map("eq", here, b.iota(shape, axis, DType.I64)), on, off)


# -- shapes as values -----------------------------------------------------------------------------------------


def _numbers(c: Lowering, values: Sequence[Extent], dtype: DType) -> Node:
    if all(isinstance(v, int) for v in values):
        return c.b.literal(np.array(values, dtype.numpy))
    return c.b.concat([c.b.reshape(c.b.extent(v, dtype), (1,)) for v in values], 0)


op("Shape", "ShapeN", host_outputs=["output"], T=ALL, out_type=INDEX)(
    lambda c: [_numbers(c, x.shape, c.attr("out_type", DType.I32)) for x in c.inputs]
)
op("Size", host_outputs=["output"], T=ALL, out_type=INDEX)(
    lambda c: c.b.extent(c.inputs[0].numel, c.attr("out_type", DType.I32))
)
op("Rank", host_outputs=["output"], T=ALL)(lambda c: c.b.const(c.inputs[0].rank, DType.I32))


def _broadcast_values(c: Lowering) -> tuple[Shape, Shape, Shape]:
    s0, s1 = tuple(extents(c, 0)), tuple(extents(c, 1))
    return s0, s1, broadcast_shapes(s0, s1)


@op("BroadcastArgs", fixed=["s0", "s1"], host_outputs=["r0"], T=INDEX)
def broadcast_args(c: Lowering) -> Node:
    return _numbers(c, _broadcast_values(c)[2], c.inputs[0].dtype)


@op("BroadcastGradientArgs", fixed=["s0", "s1"], host_outputs=["r0", "r1"], T=INDEX)
def broadcast_gradient_args(c: Lowering) -> Sequence[Node]:
    """The axes over which the gradient of each operand of a broadcasting op is summed."""
    s0, s1, common = _broadcast_values(c)
    if s0 == s1:  # TensorFlow then gives no axes at all, not even those of size 1
        return [_numbers(c, [], c.inputs[0].dtype)] * 2
    out = []
    for s in (s0, s1):
        padded = (1,) * (len(common) - len(s)) + s
        missing = len(common) - len(s)
        axes = [i for i, n in enumerate(padded) if i < missing or n == 1]
        out.append(_numbers(c, axes, c.inputs[0].dtype))
    return out


@op("ConcatOffset", fixed=["concat_dim", "shape"], host_outputs=["offset"], shape_type=INDEX)
def concat_offset(c: Lowering) -> Sequence[Node]:
    """Where each part of a concatenation begins."""
    shapes = [extents(c, i) for i in range(1, len(c.inputs))]
    axis = axis_of(c, scalar(c, 0), len(shapes[0]))
    c.require(all(len(s) == len(shapes[0]) for s in shapes), "the parts must have one rank")
    out: list[Node] = []
    at: Extent = 0
    for s in shapes:
        out.append(_numbers(c, [at if i == axis else 0 for i in range(len(s))], c.inputs[1].dtype))
        at = ext.add(at, s[axis])
    return out


# -- other shapes of the same elements ------------------------------------------------------------------------


@op("Reshape", fixed=["shape"], T=ALL, Tshape=INDEX)
def reshape(c: Lowering) -> Node:
    x, wanted = c.inputs[0], extents(c, "shape")
    c.require(c.inputs[1].rank <= 1, "shape must be a vector")
    if wanted.count(-1) > 1 or any(isinstance(n, int) and n < -1 for n in wanted):
        raise c.error(f"shape {wanted} may have one -1 and no other negative number")
    have = ext.product(x.shape)
    rest = ext.product(n for n in wanted if n != -1)
    if -1 in wanted:
        missing = ext.divide(have, rest) if rest != 0 else 0 if have == 0 else None
        if missing is None:
            raise c.error(f"{have} elements do not fill shape {wanted}")
        wanted[wanted.index(-1)] = missing
    elif have != rest:
        raise c.error(f"the input has {have} elements, shape {wanted} has {rest}")
    return c.b.reshape(x, wanted)


@op("ExpandDims", fixed=["dim"], T=ALL, Tdim=INDEX)
def expand_dims(c: Lowering) -> Node:
    return insert_axis(c, c.inputs[0], axis_of(c, scalar(c, "dim"), c.inputs[0].rank + 1))


@op("Squeeze", T=ALL)
def squeeze(c: Lowering) -> Node:
    (x,) = c.inputs
    axes = {axis_of(c, a, x.rank) for a in c.attr("squeeze_dims") or ()}
    if not axes and not all(n == 1 or c.at_least(n, 2) for n in x.shape if n != 0):
        raise c.needs_number("whether an axis is of size 1 decides the rank; name the axis to squeeze")
    c.require(all(x.shape[a] == 1 for a in axes), f"cannot squeeze axes {sorted(axes)}: not all are of size 1")
    drop = axes or {a for a, n in enumerate(x.shape) if n == 1}
    return c.b.reshape(x, [n for a, n in enumerate(x.shape) if a not in drop])


@op("Transpose", "ConjugateTranspose", fixed=["perm"], T=ALL, Tperm=INDEX)
def transpose(c: Lowering) -> Node:
    x, perm = c.inputs[0], ints(c, "perm")
    c.require(len(perm) == x.rank, f"perm {perm} must have {x.rank} entries")
    perm = [axis_of(c, p, x.rank) for p in perm]
    c.require(sorted(perm) == list(range(x.rank)), f"perm {perm} is not a permutation of the axes")
    return c.b.permute(x, perm)


@op("BroadcastTo", fixed=["shape"], T=ALL, Tidx=INDEX)
def broadcast_to(c: Lowering) -> Node:
    shape = extents(c, "shape")
    c.require(all(not isinstance(n, int) or n >= 0 for n in shape), f"shape {shape} must be non-negative")
    return c.b.expand(c.inputs[0], shape)


@op("Tile", fixed=["multiples"], T=ALL, Tmultiples=INDEX)
def tile(c: Lowering) -> Node:
    x, times = c.inputs[0], extents(c, "multiples")
    if len(times) != x.rank or any(isinstance(t, int) and t < 0 for t in times):
        raise c.error(f"multiples {times} must be {x.rank} non-negative numbers")
    middle = [m for n in x.shape for m in (1, n)]
    stretched = [m for n, t in zip(x.shape, times, strict=True) for m in (t, n)]
    shape = [ext.mul(n, t) for n, t in zip(x.shape, times, strict=True)]
    return c.b.reshape(c.b.expand(c.b.reshape(x, middle), stretched), shape)
