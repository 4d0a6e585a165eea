"""Overloads that read and write elements at places that tensors of indices give."""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.formulas.term import Term
from habana_tf.ir.builder import broadcast_shapes
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node, Shape
from habana_tf.torch.ops.row import Call, Operand, both, overload

_OUT = "IndexError: index out of range in self: {index} of {size}"


def _beyond(axis: int, kind: str = "IndexError", op: str = "") -> str:
    """What most of PyTorch's kernels say of an index out of range."""
    return f"{kind}: {op}index {{index}} is out of bounds for dimension {axis} with size {{size}}"


@overload("index_select")
def index_select(c: Call, x: Node, dim: int, index: Node) -> Node:
    b = c.b
    if not x.rank:
        c.in_range(_OUT, index, 1)
        return b.expand(x, c.shape)
    axis = dim % x.rank
    c.in_range(_OUT, index, x.shape[axis])
    out = b.gather(x, [b.reshape(index, (index.numel,))], [axis])  # its first axis is that of the index
    return b.permute(out, (*range(1, axis + 1), 0, *range(axis + 1, x.rank)))


@overload("embedding_dense_backward", floats=True)
def embedding_backward(
    c: Call, dy: Node, indices: Node, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Node:
    b = c.b
    if scale_grad_by_freq:
        raise c.refused("gradients divided by how often a row occurs")
    flat, width = b.reshape(indices, (indices.numel,)), dy.shape[-1]
    if padding_idx >= 0:  # its rows go nowhere
        nowhere = b.const(num_weights, flat.dtype, flat.shape)
        flat = b.select(b.binary("eq", flat, b.const(padding_idx, flat.dtype)), nowhere, flat)
    base = b.const(0, DType.F32, (num_weights, width))
    rows = b.reshape(c.term(dy).node, (indices.numel, width))
    return b.scatter(base, rows, [flat], [0], "add")


# -- one index per element --------------------------------------------------------------------------------------


def _coordinates(c: Call, x: Node, dim: int, index: Node) -> list[Node]:
    """Where each element of `index` points to: its value along `dim`, its own place along the other axes."""
    b = c.b
    c.in_range(_beyond(dim, "RuntimeError"), index, x.shape[dim])
    return [index if k == dim else b.iota(index.shape, k, index.dtype) for k in range(x.rank)]


def _at_least_a_vector(c: Call, *nodes: Node) -> list[Node]:
    return [c.b.reshape(n, (1,)) if not n.rank else n for n in nodes]


@overload("gather")
def gather(c: Call, x: Node, dim: int, index: Node, sparse_grad: bool = False) -> Node:
    if not index.numel:
        return c.b.const(0, c.dtype, c.shape)
    x, index = _at_least_a_vector(c, x, index)
    coords = _coordinates(c, x, dim % x.rank, index)
    return c.b.reshape(c.b.gather(x, coords, list(range(x.rank))), c.shape)


def _scattered(c: Call, x: Node, dim: int, index: Node, source: Operand, kind: str = "set") -> Node:
    b = c.b
    if not index.numel:
        return x
    shape = x.shape
    x, index = _at_least_a_vector(c, x, index)
    updates = c.node(source, x.dtype.accumulator)
    if not isinstance(source, Node) or not source.rank and index.shape != (1,):
        updates = b.expand(updates, index.shape)
    (updates,) = _at_least_a_vector(c, updates)
    updates = b.slice(updates, [0] * index.rank, index.shape)
    coords = _coordinates(c, x, dim % x.rank, index)
    base = b.cast(x, x.dtype.accumulator)
    return b.reshape(b.scatter(base, updates, coords, list(range(x.rank)), kind), shape)


overload(*both("scatter.src"))(_scattered)
overload(*both("scatter.value"), runtime=["value"])(_scattered)


@overload(*both("scatter_add"))
def scatter_add(c: Call, x: Node, dim: int, index: Node, src: Node) -> Node:
    if x.dtype is DType.BOOL:
        raise c.refused("a sum of booleans")
    return _scattered(c, x, dim, index, src, "add")


_REDUCED = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "add": "add", "multiply": "mul"}
"""PyTorch's names of what a scatter does with old elements; a mean has no such primitive."""


@overload(*both("scatter_reduce.two"), *both("scatter.reduce"))
def scatter_reduce(c: Call, x: Node, dim: int, index: Node, src: Node, reduce: str, include_self: bool = True) -> Node:
    if reduce not in _REDUCED or not include_self or x.dtype is DType.BOOL:
        raise c.refused(f"reduce={reduce!r} with include_self={include_self} of {x.dtype}")
    return _scattered(c, x, dim, index, src, _REDUCED[reduce])


# -- rows -------------------------------------------------------------------------------------------------------


def _rows_first(c: Call, x: Node, axis: int) -> Node:
    return c.b.permute(x, (axis, *(k for k in range(x.rank) if k != axis)))


def _at_rows(
    c: Call, x: Node, dim: int, index: Node, rows: Node, kind: str, words: str, given: Node | None = None
) -> Node:
    """x with `rows`, whose first axis is that of the index, put or added at places of an axis. words, given: as in
    `Call.in_range`."""
    b = c.b
    axis = dim % x.rank
    flat = b.reshape(index, (index.numel,))
    c.in_range(words, flat, x.shape[axis], None if given is None else b.reshape(given, (given.numel,)))
    base = b.cast(x, x.dtype.accumulator)
    return b.scatter(base, rows, [flat], [axis], kind)


@overload(*both("index_add"), runtime=["alpha"])
def index_add(c: Call, x: Node, dim: int, index: Node, source: Node, alpha: Operand = 1) -> Node:
    if not x.rank or x.dtype is DType.BOOL:
        raise c.refused("a sum of booleans, or a scalar")
    added = c.term(source) * c.term(alpha)
    words = _OUT if x.rank == 1 else _beyond(dim % x.rank, "RuntimeError")
    return _at_rows(c, x, dim, index, _rows_first(c, added.node, dim % x.rank), "add", words)


@overload(*both("index_copy"))
def index_copy(c: Call, x: Node, dim: int, index: Node, source: Node) -> Node:
    if not x.rank:
        raise c.refused("a scalar")
    words = _beyond(dim % x.rank, op="index_copy_(): ")
    return _at_rows(c, x, dim, index, _rows_first(c, c.term(source).node, dim % x.rank), "set", words)


@overload(*both("index_fill.int_Scalar", "index_fill.int_Tensor"), runtime=["value"])
def index_fill(c: Call, x: Node, dim: int, index: Node, value: Operand) -> Node:
    if not x.rank:
        raise c.refused("a scalar")
    axis = dim % x.rank
    rest = [n for k, n in enumerate(x.shape) if k != axis]
    wrapped = _wrapped(c, index, x.shape[axis])
    rows = c.b.expand(c.node(value, x.dtype.accumulator), (index.numel, *rest))
    return _at_rows(c, x, dim, wrapped, rows, "set", _beyond(axis), index)


# -- tensors in brackets ----------------------------------------------------------------------------------------


def _wrapped(c: Call, index: Node, n: Extent) -> Node:
    """An index with negative ones counted from the end."""
    t = Term(c.b, index)
    return t.test("lt", 0).where(t + Term(c.b, c.b.extent(n, index.dtype)), t).node


class _Brackets:
    """x[indices]: axes that are indexed, their coordinates, and where the axes of the indices come to lie."""

    def __init__(self, c: Call, x: Node, indices: Sequence[Node | None]) -> None:
        b = c.b
        self.axes = [k for k, index in enumerate(indices) if index is not None]
        nodes = [index for index in indices if index is not None]
        if not nodes or any(not n.dtype.is_int or n.dtype is DType.U8 for n in nodes):
            raise c.refused("an index of booleans, whose number decides a shape,")
        shape: Shape = ()
        for n in nodes:
            shape = broadcast_shapes(shape, n.shape)
        self.coords = []
        for axis, n in zip(self.axes, nodes, strict=True):
            given = b.cast(n, DType.I64)
            wrapped = _wrapped(c, given, x.shape[axis])
            c.in_range(_beyond(axis), wrapped, x.shape[axis], given)
            self.coords.append(b.expand(wrapped, shape))
        self.rank = len(shape)
        together = self.axes == list(range(self.axes[0], self.axes[-1] + 1))
        first = self.axes[0] if together else 0
        rest = x.rank - len(self.axes)
        self.order = [
            *range(self.rank, self.rank + first),
            *range(self.rank),
            *range(self.rank + first, self.rank + rest),
        ]
        """Axes of the result, of those of the indices and then the others."""


@overload("index.Tensor", "_unsafe_index.Tensor")
def index(c: Call, x: Node, indices: Sequence[Node | None]) -> Node:
    if 0 in c.shape:
        return c.b.const(0, c.dtype, c.shape)
    brackets = _Brackets(c, x, indices)
    return c.b.permute(c.b.gather(x, brackets.coords, brackets.axes), brackets.order)


def _masked(c: Call, x: Node, indices: Sequence[Node | None], values: Operand) -> Node | None:
    """x with one value where a mask of booleans holds; None for other indices or several values."""
    given = [(k, n) for k, n in enumerate(indices) if n is not None]
    if len(given) != 1 or given[0][1].dtype is not DType.BOOL or isinstance(values, Node) and values.numel != 1:
        return None
    axis, mask = given[0]
    new = c.b.reshape(values, ()) if isinstance(values, Node) else values
    held = c.b.broadcast_in_dim(mask, x.shape, range(axis, axis + mask.rank))
    return c.b.select(held, c.node(new, x.dtype), x)


@overload(*both("index_put"), "_unsafe_index_put", "_index_put_impl_")
def index_put(
    c: Call, x: Node, indices: Sequence[Node | None], values: Operand, accumulate: bool = False, unsafe: bool = False
) -> Node:
    b = c.b
    masked = _masked(c, x, indices, values) if not accumulate else None
    if masked is not None:
        return masked
    brackets = _Brackets(c, x, indices)
    if accumulate and x.dtype is DType.BOOL:
        raise c.refused("a sum of booleans")
    rest = [n for k, n in enumerate(x.shape) if k not in brackets.axes]
    inner = [*brackets.coords[0].shape, *rest]
    outer = [inner[k] for k in brackets.order]
    if 0 in outer:
        return x
    new = b.expand(c.node(values, x.dtype.accumulator), outer)
    new = b.permute(new, [brackets.order.index(k) for k in range(len(inner))])
    base = b.cast(x, x.dtype.accumulator)
    return b.scatter(base, new, brackets.coords, brackets.axes, "add" if accumulate else "set")


@overload("take")
def take(c: Call, x: Node, index: Node) -> Node:
    if 0 in c.shape:
        return c.b.const(0, c.dtype, c.shape)
    wrapped = _wrapped(c, index, x.numel)
    words = "IndexError: out of range: tried to access index {index} on a tensor of {size} elements."
    c.in_range(words, wrapped, x.numel, index)
    return c.b.gather(c.b.reshape(x, (x.numel,)), [wrapped], [0])
