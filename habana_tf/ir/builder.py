"""Builds programs of primitives: checks shapes and types, folds trivial operations, and shares equal nodes (common
subexpressions)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from habana_tf.ir import extent as ext
from habana_tf.ir import triangles
from habana_tf.ir.dtypes import DType, from_label
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import (
    BINARY,
    COMPARE,
    REDUCTIONS,
    UNARY,
    Contraction,
    Custom,
    Loop,
    Node,
    Op,
    Random,
    Scan,
    Shape,
    Sort,
)

TRIANGLE = 4096
"""The least number of elements of a constant that is searched for a triangular mask."""


class ShapeError(ValueError):
    """Operands whose shapes or types do not fit; the message names the primitive and the shapes."""


class Builder:
    """One method per primitive, and a few common compositions. Each gives the node of its result.

    Arguments are nodes of this builder. Wrong shapes or types raise `ShapeError`. origin: the op that is lowered (see
    `Node`).
    """

    def __init__(self) -> None:
        self._known: dict[Any, Node] = {}
        self.inputs: list[Node] = []
        self.origin = -1

    def _node(self, op: Op, src: Sequence[Node], shape: Sequence[Extent], dtype: DType, arg: Any = None) -> Node:
        key = (op, tuple(map(id, src)), tuple(shape), dtype, arg, type(arg))
        node = self._known.get(key)
        if node is None:
            node = self._known[key] = Node(op, tuple(src), tuple(shape), dtype, arg, self.origin)
        return node

    def again(self, node: Node, src: Sequence[Node]) -> Node:
        """The same operation on other sources of the same shapes."""
        return self._node(node.op, src, node.shape, node.dtype, node.arg)

    # -- sources ------------------------------------------------------------------------------------------

    def input(self, shape: Sequence[Extent], dtype: DType) -> Node:
        """The next input of the program."""
        node = self._node(Op.INPUT, (), shape, dtype, len(self.inputs))
        self.inputs.append(node)
        return node

    def state(self, index: int) -> Node:
        """Random state `index`: uint32[6], the Philox counter (4 words, low first) and key (2 words)."""
        return self._node(Op.INPUT, (), (6,), DType.U32, ("state", index))

    def const(self, value: bool | int | float, dtype: DType, shape: Sequence[Extent] = ()) -> Node:
        """A compile-time scalar, broadcast to `shape`."""
        if dtype.is_float:
            arg: Any = float(value).hex()  # -0.0 is not 0.0 in the table of nodes, and NaN equals NaN
        else:
            arg = bool(value) if dtype is DType.BOOL else int(value)
        return self.expand(self._node(Op.CONST, (), (), dtype, arg), shape)

    def literal(self, array: Any) -> Node:
        """A constant array (NumPy). Scalars and uniform arrays become `const`; large triangular masks (of causal
        attention) become a comparison of row and column numbers."""
        import numpy as np

        array = np.asarray(array)
        dtype = from_label(array.dtype.name)
        if array.size and not any(array.strides):  # one value, of more elements than memory may hold
            return self.const(array[(0,) * array.ndim].item(), dtype, array.shape)
        flat = (array := np.asarray(array, order="C")).reshape(-1)
        if flat.size and (flat.view(np.uint8).reshape(flat.size, -1) == flat[:1].view(np.uint8)).all():
            return self.const(flat[0].item(), dtype, array.shape)
        first = triangles.first_row(array) if dtype is DType.BOOL and array.size >= TRIANGLE else None
        if first is not None:
            sizes = array.shape[-2:]
            rows, columns = (self.iota(sizes, axis, DType.I32) for axis in (0, 1))
            inside = self.map("gt", self.map("add", rows, self.const(first, DType.I32, sizes)), columns)
            return self.reshape(inside, array.shape)
        return self._node(Op.CONST, (), array.shape, dtype, array.tobytes())

    def iota(self, shape: Sequence[Extent], axis: int, dtype: DType = DType.I64) -> Node:
        """0, 1, 2, ... along `axis`, broadcast over the other axes."""
        line = self._node(Op.IOTA, (), (shape[axis],), dtype)
        return self.broadcast_in_dim(line, shape, (axis,))

    def extent(self, e: Extent, dtype: DType) -> Node:
        """An extent as a scalar tensor; a constant if it is a number."""
        return self.const(e, dtype) if isinstance(e, int) else self._node(Op.EXTENT, (), (), dtype, e)

    def extents(self, values: Any, dtype: DType) -> Node:
        """An array of extents as a tensor; a constant if all are numbers."""
        import numpy as np

        array = np.asarray(values)
        if array.dtype != object or not array.size:
            return self.literal(array.astype(dtype.numpy))
        elements = [self.reshape(self.extent(e, dtype), (1,)) for e in array.reshape(-1).tolist()]
        return self.reshape(self.concat(elements, 0), array.shape)

    # -- compute ------------------------------------------------------------------------------------------

    def map(self, fn: str, *src: Node, dtype: DType | None = None) -> Node:
        """An elementwise scalar function: `fn` of UNARY, BINARY, or "select" (bool, then, else).

        All operands have one shape (`binary` broadcasts). The result has the type of the last operand, bool for
        comparisons, or `dtype` (required by "cast" and "bitcast").
        """
        arity = 1 if fn in UNARY else 2 if fn in BINARY else 3 if fn == "select" else 0
        if arity != len(src):
            raise ShapeError(f"map {fn!r} of {len(src)} operands")
        for s in src[1:]:
            if s.shape != src[0].shape:
                raise ShapeError(f"map {fn!r}: shapes {[n.shape for n in src]} differ; broadcast first")
        if fn in BINARY and src[0].dtype != src[1].dtype or fn == "select" and src[1].dtype != src[2].dtype:
            raise ShapeError(f"map {fn!r}: types {[n.dtype for n in src]} differ; cast first")
        if fn in COMPARE:
            dtype = DType.BOOL
        out = dtype or src[-1].dtype
        if fn == "cast" and src[0].dtype is out or fn == "stored" and not out.is_short:
            return src[0]
        if fn == "bitcast" and src[0].dtype.bits != out.bits:
            raise ShapeError(f"map 'bitcast': {src[0].dtype} and {out} differ in size")
        return self._node(Op.MAP, src, src[0].shape, out, fn)

    def cast(self, x: Node, dtype: DType) -> Node:
        """Conversion of values: floats round to nearest even, float to int truncates, to bool tests for non-zero."""
        return self.map("cast", x, dtype=dtype)

    def binary(self, fn: str, a: Node, b: Node) -> Node:
        """`map` of two operands after NumPy's broadcasting."""
        shape = broadcast_shapes(a.shape, b.shape)
        return self.map(fn, self.expand(a, shape), self.expand(b, shape))

    def select(self, c: Node, a: Node, b: Node) -> Node:
        """`a` where `c`, else `b`, after broadcasting all three."""
        shape = broadcast_shapes(broadcast_shapes(c.shape, a.shape), b.shape)
        return self.map("select", *(self.expand(n, shape) for n in (c, a, b)))

    def reduce(self, kind: str, x: Node, axes: Sequence[int], dtype: DType | None = None) -> Node:
        """Reduces `axes` (and removes them) by sum, prod, max or min, in x's accumulator type, rounded once.

        argmax and argmin take one axis and give the first index of the extreme as `dtype` (default int64); NaN counts
        as the extreme. Over an empty axis: sum 0, prod 1, max/min the type's lowest/highest.
        """
        if kind not in REDUCTIONS:
            raise ShapeError(f"reduce {kind!r} is not one of {sorted(REDUCTIONS)}")
        axes = tuple(sorted({a % x.rank for a in axes}))
        out = (dtype or DType.I64) if kind.startswith("arg") else x.dtype
        if not axes:
            return x
        shape = tuple(n for i, n in enumerate(x.shape) if i not in axes)
        if kind in ("sum", "prod", "max", "min") and all(x.shape[a] == 1 for a in axes):
            return self.reshape(x, shape)
        return self._node(Op.REDUCE, (x,), shape, out, (kind, axes))

    def contract(self, a: Node, b: Node, spec: Contraction, dtype: DType | None = None) -> Node:
        """Sum of products over shared labels (an einsum): matmul, convolution (of a `window`) and their gradients."""
        sizes: dict[int, Extent] = {}
        for node, labels in ((a, spec.a), (b, spec.b)):
            if len(labels) != node.rank or len(set(labels)) != len(labels):
                raise ShapeError(f"contract: labels {labels} do not fit shape {node.shape}")
            for label, n in zip(labels, node.shape, strict=True):
                if sizes.setdefault(label, n) != n:
                    raise ShapeError(f"contract: axis {label} is {sizes[label]} in one operand and {n} in the other")
        return self._node(Op.CONTRACT, (a, b), [sizes[i] for i in spec.out], dtype or a.dtype, spec)

    def gather(self, x: Node, coords: Sequence[Node], axes: Sequence[int]) -> Node:
        """out[i..., rest...] = x[axis axes[j] at coords[j][i...], the other axes at rest].

        Coordinates are integer tensors of one shape; out-of-range ones give 0.
        """
        rest = [n for k, n in enumerate(x.shape) if k not in axes]
        return self._node(Op.GATHER, (x, *coords), (*coords[0].shape, *rest), x.dtype, tuple(axes))

    def scatter(self, base: Node, updates: Node, coords: Sequence[Node], axes: Sequence[int], kind: str) -> Node:
        """`base` with updates[i..., rest...] combined at coords; kind: set, add, sub, mul, div, max, min.

        Updates are applied in the order of i ("set" keeps the last); out-of-range ones are ignored.
        """
        return self._node(Op.SCATTER, (base, updates, *coords), base.shape, base.dtype, (kind, tuple(axes)))

    def random(self, state: Node, n: Extent, run: int = 1, skip: int = 1) -> Node:
        """n uint32 words of the Philox-4x32-10 stream at `state` (uint32[6]: counter, key).

        run, skip: each run of `run` blocks of 128 bits begins `skip` blocks after the previous run (TensorFlow gives
        each group of results with rejection its own part of the stream).
        """
        return self._node(Op.RANDOM, (state,), (n,), DType.U32, Random(run, skip))

    def sort(self, x: Node, axis: int, descending: bool = False, first: int | None = None) -> Node:
        """Stable argsort along `axis`: int32 positions, or the `first` ones of them (at most the axis' extent)."""
        shape = x.shape if first is None else (*x.shape[:axis], first, *x.shape[axis + 1 :])
        return self._node(Op.SORT, (x,), shape, DType.I32, Sort(axis, descending, first))

    def scan(self, kind: str, x: Node, axis: int, exclusive: bool = False, reverse: bool = False) -> Node:
        """Cumulative sum or product along `axis`."""
        return self._node(Op.SCAN, (x,), x.shape, x.dtype, Scan(kind, axis, exclusive, reverse))

    def loop(self, loop: Loop, src: Sequence[Node]) -> list[Node]:
        """The outputs of a loop. src: initial values of carried tensors, then sliced tensors, then loop invariants."""
        body = loop.body
        if len(src) != len(body.inputs) or len(body.outputs) != loop.carried + len(loop.stacked):
            raise ShapeError(f"loop: {len(src)} operands for {len(body.inputs)} inputs")
        rows = loop.carried, loop.carried + len(loop.sliced)
        for k, (mine, inner) in enumerate(zip(src, body.inputs, strict=True)):
            shape = mine.shape[1:] if rows[0] <= k < rows[1] else mine.shape
            left = body.outputs[k] if k < loop.carried else inner
            alike = (left.shape, left.dtype) == (inner.shape, inner.dtype)
            if (shape, mine.dtype) != (loop.given(k), inner.dtype) or not alike:
                raise ShapeError(f"loop: operand {k} is {mine}, in its body {inner}, and it leaves {left}")
        shapes = zip(loop.shapes(), body.outputs, strict=True)
        return [self._node(Op.LOOP, src, shape, n.dtype, (loop, k)) for k, (shape, n) in enumerate(shapes)]

    def custom(self, spec: Custom, src: Sequence[Node]) -> list[Node]:
        """The outputs of a custom kernel in C."""
        if any(not isinstance(n, int) for x in src for n in x.shape):
            raise ShapeError(f"custom {spec.op}: a kernel in C wants numbers, not {[x.shape for x in src]}")
        return [self._node(Op.CUSTOM, src, shape, dtype, (spec, k)) for k, (dtype, shape) in enumerate(spec.outputs)]

    # -- views --------------------------------------------------------------------------------------------

    def reshape(self, x: Node, shape: Sequence[Extent]) -> Node:
        """The same elements in row-major order under another shape."""
        shape = tuple(shape)
        if shape == x.shape:
            return x
        if ext.product(shape) != x.numel:
            raise ShapeError(f"reshape: {x.shape} has not as many elements as {shape}")
        if x.op is Op.RESHAPE:
            return self.reshape(x.src[0], shape)
        return self._node(Op.RESHAPE, (x,), shape, x.dtype)

    def expand(self, x: Node, shape: Sequence[Extent]) -> Node:
        """NumPy's broadcasting to `shape`."""
        shape = tuple(shape)
        if x.rank < len(shape):
            x = self.reshape(x, (1,) * (len(shape) - x.rank) + x.shape)
        if shape == x.shape:
            return x
        if x.rank > len(shape):
            raise ShapeError(f"expand: {x.shape} has more axes than {shape}")
        for have, want in zip(x.shape, shape, strict=True):
            if have != want and have != 1:
                raise ShapeError(f"expand: {x.shape} does not stretch to {shape}")
        return self._node(Op.EXPAND, (x,), shape, x.dtype)

    def broadcast_in_dim(self, x: Node, shape: Sequence[Extent], axes: Sequence[int]) -> Node:
        """Broadcasts x to `shape`, with x's axis i at axis axes[i] (increasing)."""
        middle: list[Extent] = [1] * len(shape)
        for i, a in enumerate(axes):
            middle[a] = x.shape[i]
        return self.expand(self.reshape(x, middle), shape)

    def permute(self, x: Node, perm: Sequence[int]) -> Node:
        """Axis i of the result is axis perm[i] of x."""
        perm = tuple(perm)
        if perm == tuple(range(x.rank)):
            return x
        if x.op is Op.PERMUTE:
            return self.permute(x.src[0], [x.arg[p] for p in perm])
        return self._node(Op.PERMUTE, (x,), [x.shape[p] for p in perm], x.dtype, perm)

    def slice(
        self, x: Node, begin: Sequence[Extent], size: Sequence[Extent], step: Sequence[int] | None = None
    ) -> Node:
        """out[i] = x[begin + i * step] per axis; steps may be negative. Bounds are not checked."""
        step = tuple(step) if step is not None else (1,) * x.rank
        begin, size = tuple(begin), tuple(size)
        if size == x.shape and not any(begin) and all(s == 1 for s in step):
            return x
        return self._node(Op.SLICE, (x,), size, x.dtype, (begin, step))

    def along(self, x: Node, axis: int, begin: Extent, size: Extent) -> Node:
        """`size` elements of one axis, from `begin` on."""
        begins: list[Extent] = [0] * x.rank
        sizes = list(x.shape)
        begins[axis], sizes[axis] = begin, size
        return self.slice(x, begins, sizes)

    def pad(self, x: Node, low: Sequence[Extent], high: Sequence[Extent], value: Node | float = 0,
            interior: Sequence[int] | None = None) -> Node:  # fmt: skip
        """x padded with `value` (a scalar node or number) at both ends and, with `interior`, between elements."""
        interior = tuple(interior) if interior is not None else (0,) * x.rank
        low, high = tuple(low), tuple(high)
        if not (any(low) or any(high) or any(interior)):
            return x
        if not isinstance(value, Node):
            value = self.const(value, x.dtype)
        shape = [
            ext.add(ext.add(n, ext.add(lo, hi)), ext.mul(ext.add(n, -1), i) if i else 0)
            for n, lo, hi, i in zip(x.shape, low, high, interior, strict=True)
        ]
        return self._node(Op.PAD, (x, value), shape, x.dtype, (low, high, interior))

    def window(self, x: Node, axes: Sequence[int], size: Sequence[int], stride: Sequence[int],
               dilation: Sequence[int] | None = None) -> Node:  # fmt: skip
        """Sliding windows: axis a holds the window's position, and an axis for the offset within the window is appended
        per entry of `axes`: out[.., o, .., k] = x[.., o * stride + k * dilation, ..]."""
        dilation = tuple(dilation) if dilation is not None else (1,) * len(axes)
        shape = list(x.shape)
        for a, k, s, d in zip(axes, size, stride, dilation, strict=True):
            span = (k - 1) * d + 1
            n = shape[a]
            if isinstance(n, int) and n < span:
                raise ShapeError(f"window of {span} over axis {a} of {x.shape}")
            shape[a] = ext.add(ext.div(ext.add(n, -span), s), 1)
        arg = (tuple(axes), tuple(size), tuple(stride), dilation)
        return self._node(Op.WINDOW, (x,), (*shape, *size), x.dtype, arg)

    def concat(self, parts: Sequence[Node], axis: int) -> Node:
        """Concatenation along `axis`."""
        parts = [p for p in parts if p.shape[axis] != 0] or list(parts[:1])
        if len(parts) == 1:
            return parts[0]
        shape = list(parts[0].shape)
        shape[axis] = 0
        for p in parts:
            shape[axis] = ext.add(shape[axis], p.shape[axis])
        return self._node(Op.CONCAT, parts, shape, parts[0].dtype, axis)

    def reverse(self, x: Node, axes: Sequence[int]) -> Node:
        """x reversed along `axes`."""
        begin: list[Extent] = [0] * x.rank
        step = [1] * x.rank
        for a in axes:
            begin[a], step[a] = ext.add(x.shape[a], -1), -1
        return self.slice(x, begin, x.shape, step)


def broadcast_shapes(a: Shape, b: Shape) -> Shape:
    """The broadcast shape by NumPy's rule, else a ShapeError."""
    rank = max(len(a), len(b))
    out: list[Extent] = []
    for m, n in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True):
        if m != n and m != 1 and n != 1:
            raise ShapeError(f"shapes {a} and {b} do not broadcast")
        out.append(n if m == 1 else m)
    return tuple(out)
