"""Ops that read or update a variable in place: here they are functions from old values to new ones.

Reading an element out of range gives 0 and writing one does nothing, as on every accelerator: a kernel there
cannot raise (TensorFlow's CPU kernels do). Sums of short floats are kept in float32 and rounded once. begin, end and
strides of a slice are run-time inputs.
"""

from __future__ import annotations

from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.indexing import (
    gather_in_batches,
    gather_nd,
    passed_over,
    scatter_nd_into,
    scatter_wide,
)
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import ALL, INDEX, NUMERIC, op
from habana_tf.tensorflow.lowering.slicing import entries_of_slice

op("AssignAddVariableOp", updates=("resource",), dtype=NUMERIC)(lambda c: c.b.map("add", *c.inputs))
op("AssignSubVariableOp", updates=("resource",), dtype=NUMERIC)(lambda c: c.b.map("sub", *c.inputs))


# -- gather and scatter ---------------------------------------------------------------------------------------


@op("ResourceGather", variables=("resource",), dtype=ALL, Tindices=INDEX)
def resource_gather(c: Lowering) -> Node:
    x, indices = c.inputs
    return gather_in_batches(c, x, indices, c.attr("batch_dims", 0))


op("ResourceGatherNd", variables=("resource",), dtype=ALL, Tindices=INDEX)(gather_nd)

_KINDS = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Min": "min", "Max": "max", "Update": "set"}


def _kind(c: Lowering) -> str:
    return next(kind for name, kind in _KINDS.items() if c.op.endswith(name))


@op("ResourceScatterUpdate", updates=("resource",), dtype=ALL, Tindices=INDEX)
@op(
    *(f"ResourceScatter{name}" for name in _KINDS if name != "Update"),
    updates=("resource",), dtype=NUMERIC, Tindices=INDEX,
)  # fmt: skip
def resource_scatter(c: Lowering) -> Node:
    x, indices, updates = c.inputs
    wanted = (*indices.shape, *x.shape[1:])
    if updates.rank and updates.shape != wanted or not x.rank:
        raise c.error("updates must be a scalar, or have the shape of the indices and then that of a row")
    updates = c.b.expand(updates, wanted)
    c.context.in_range("indices", indices, x.shape[0])
    return scatter_wide(c, x, passed_over(c, updates, _kind(c)), [indices], _kind(c))


@op("ResourceScatterNdUpdate", updates=("ref",), T=ALL, Tindices=INDEX)
@op(
    *(f"ResourceScatterNd{name}" for name in ("Add", "Sub", "Min", "Max")),
    updates=("ref",), T=NUMERIC, Tindices=INDEX,
)  # fmt: skip
def resource_scatter_nd(c: Lowering) -> Node:
    x, indices, updates = c.inputs
    return scatter_nd_into(c, x, indices, updates, _kind(c))


# -- strided slices -------------------------------------------------------------------------------------------


@op("ResourceStridedSliceAssign", host=("begin", "end", "strides"), updates=("ref",), T=ALL, Index=INDEX)
def resource_strided_slice_assign(c: Lowering) -> Node:
    """Each element of the variable asks whether the slice holds it and, if so, which element of value it gets.

    With i the position on an axis, q = (i - begin) / stride: it is in the slice if the remainder is 0, q >= 0 and
    i has not reached end. value broadcasts to the slice.
    """
    b, x, value = c.b, c.input("ref"), c.input("value")
    count = c.input("begin").shape[0]
    if any(c.input(name).shape != (count,) for name in ("end", "strides")):
        raise c.error("begin, end and strides must have one length")
    assert isinstance(count, int)
    spec = entries_of_slice(c, count, x.rank)
    wanted = [kind for kind, _ in spec if kind != "shrink"]
    shape: list[Extent] = list(value.shape)
    while len(shape) > len(wanted) and shape[0] == 1:
        shape = shape[1:]
    c.require(len(shape) <= len(wanted), f"a value of rank {value.rank} for a slice of rank {len(wanted)}")
    shape = [*[1] * (len(wanted) - len(shape)), *shape]
    value = b.reshape(value, [n for n, kind in zip(shape, wanted, strict=True) if kind != "new"])
    held = b.const(True, DType.BOOL, x.shape)
    coords: list[Node] = []
    axis = 0
    for kind, entry in spec:
        if kind == "new":
            continue
        position = b.iota((x.shape[axis],), 0, DType.I64)
        if kind != "keep":
            inside, position = _progress(c, kind, entry, position)
            held = b.map("and", held, b.broadcast_in_dim(inside, x.shape, (axis,)))
        if kind != "shrink":
            if value.shape[len(coords)] == 1:
                position = b.const(0, DType.I64, position.shape)
            coords.append(b.broadcast_in_dim(position, x.shape, (axis,)))
        axis += 1
    new = b.gather(value, coords, range(len(coords))) if coords else value
    return b.select(held, new, x)


def _progress(c: Lowering, kind: str, entry: int, position: Node) -> tuple[Node, Node]:
    """For each position of an axis: whether the slice holds it, and how many steps from begin it is."""
    b, size = c.b, position.shape[0]

    def at(name: str) -> Node:
        return b.expand(b.cast(b.slice(c.input(name), (entry,), (1,)), DType.I64), position.shape)

    def const(value: int) -> Node:
        return b.const(value, DType.I64, position.shape)

    if not isinstance(size, int):
        raise c.error("the variable's shape must be known")
    begin, length, zero = at("begin"), const(size), const(0)
    wrapped = b.select(b.map("lt", begin, zero), b.map("add", begin, length), begin)
    if kind == "shrink":
        return b.map("eq", position, wrapped), zero
    stride = at("strides")
    forward = b.map("gt", stride, zero)
    lowest, highest = b.select(forward, zero, const(-1)), b.select(forward, length, const(size - 1))
    if c.attr("begin_mask", 0) >> entry & 1:
        begin = b.select(forward, lowest, highest)
    else:
        begin = b.map("min", b.map("max", wrapped, lowest), highest)
    if c.attr("end_mask", 0) >> entry & 1:
        end = b.select(forward, highest, lowest)
    else:
        end = at("end")
        end = b.select(b.map("lt", end, zero), b.map("add", end, length), end)
    away = b.map("sub", position, begin)
    steps = b.map("floordiv", away, stride)
    inside = b.map("and", b.map("eq", b.map("floormod", away, stride), zero), b.map("ge", steps, zero))
    before = b.select(forward, b.map("lt", position, end), b.map("gt", position, end))
    return b.map("and", inside, before), steps
