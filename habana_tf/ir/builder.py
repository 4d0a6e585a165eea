"""Makes the nodes of a program, and checks what they are asked to be.

A `Builder` checks shapes and types, folds the trivial, and returns the same node for the same request, so that a graph
of primitives has no duplicates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from habana_tf.ir import extent as ext
from habana_tf.ir import triangles
from habana_tf.ir.dtypes import DType
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
"""Elements from which a triangle is recognized."""


class ShapeError(ValueError):
    """Operands that do not fit; the message names the primitive and the shapes."""


class Builder:
    """Makes nodes. Each method is one primitive, or a common composition of a few.

    Arguments are nodes of this builder. Errors in shapes or types raise `ShapeError`. Whoever lowers an op sets
    `origin` (see `Node`) first.
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
        """A node with other sources of the same shapes."""
        return self._node(node.op, src, node.shape, node.dtype, node.arg)

    # -- sources ------------------------------------------------------------------------------------------

    def input(self, shape: Sequence[Extent], dtype: DType) -> Node:
        """The next input of the program."""
        node = self._node(Op.INPUT, (), shape, dtype, len(self.inputs))
        self.inputs.append(node)
        return node

    def state(self, index: int) -> Node:
        """Random state `index`: uint32[6] = Philox counter (4 words, low first) and key (2 words)."""
        return self._node(Op.INPUT, (), (6,), DType.U32, ("state", index))

    def const(self, value: bool | int | float, dtype: DType, shape: Sequence[Extent] = ()) -> Node:
        """A scalar known at compile time, repeated over `shape`."""
        if dtype is DType.BOOL:
            value = bool(value)
        elif dtype.is_float:
            value = float(value)
            arg: Any = value.hex()  # tells -0.0 from 0.0 and NaN from NaN in the table of known nodes
            return self.expand(self._node(Op.CONST, (), (), dtype, arg), shape)
        else:
            value = int(value)
        return self.expand(self._node(Op.CONST, (), (), dtype, value), shape)

    def literal(self, array: Any) -> Node:
        """A small dense constant (a NumPy array); scalars and uniform arrays become `const`, and large triangles of a
        matrix (the mask of causal attention, say) a comparison of positions."""
        import numpy as np

        from habana_tf.ir.dtypes import from_label

        array = np.asarray(array, order="C")  # unlike ascontiguousarray, leaves a scalar a scalar
        dtype = from_label(array.dtype.name)
        flat = array.reshape(-1)
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
        """0, 1, 2, ... along `axis`, repeated over the other axes."""
        line = self._node(Op.IOTA, (), (shape[axis],), dtype)
        return self.broadcast_in_dim(line, shape, (axis,))

    def extent(self, e: Extent, dtype: DType) -> Node:
        """A scalar that holds an extent; a constant where that is known."""
        return self.const(e, dtype) if isinstance(e, int) else self._node(Op.EXTENT, (), (), dtype, e)

    # -- compute ------------------------------------------------------------------------------------------

    def extents(self, values: Any, dtype: DType) -> Node:
        """An array of extents; a constant where all are known."""
        import numpy as np

        array = np.asarray(values)
        if array.dtype != object or not array.size:
            return self.literal(array.astype(dtype.numpy))
        elements = [self.reshape(self.extent(e, dtype), (1,)) for e in array.reshape(-1).tolist()]
        return self.reshape(self.concat(elements, 0), array.shape)

    def map(self, fn: str, *src: Node, dtype: DType | None = None) -> Node:
        """A scalar function applied elementwise: `fn` of UNARY, BINARY, or "select" (bool, then, else).

        All operands have one shape (see `binary` for broadcasting). The result's type is that of the last
        operand, bool for comparisons, or `dtype` (which "cast" and "bitcast" need).
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
        """Value conversion: floats round to nearest even; float to int truncates; to bool tests for non-zero."""
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
        """sum, prod, max, min over `axes` (which disappear), kept in x's accumulator type, rounded once.

        argmax and argmin take exactly one axis and give the first index of the extreme as `dtype` (default
        int64); NaN counts as extreme. Over an empty axis: sum 0, prod 1, max/min the type's lowest/highest.
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
        """Sum of products over shared labels: matmul, convolution (over `window`) and their gradients."""
        sizes: dict[int, Extent] = {}
        for node, labels in ((a, spec.a), (b, spec.b)):
            if len(labels) != node.rank or len(set(labels)) != len(labels):
                raise ShapeError(f"contract: labels {labels} do not fit shape {node.shape}")
            for label, n in zip(labels, node.shape, strict=True):
                if sizes.setdefault(label, n) != n:
                    raise ShapeError(f"contract: axis {label} is {sizes[label]} in one operand and {n} in the other")
        return self._node(Op.CONTRACT, (a, b), [sizes[i] for i in spec.out], dtype or a.dtype, spec)

    def gather(self, x: Node, coords: Sequence[Node], axes: Sequence[int]) -> Node:
        """out[i..., rest...] = x with axis axes[j] at coords[j][i...] and the remaining axes in order.

        Coordinates are integers of one shared shape; where any is out of range the result is 0.
        """
        rest = [n for k, n in enumerate(x.shape) if k not in axes]
        return self._node(Op.GATHER, (x, *coords), (*coords[0].shape, *rest), x.dtype, tuple(axes))

    def scatter(self, base: Node, updates: Node, coords: Sequence[Node], axes: Sequence[int], kind: str) -> Node:
        """`base` with updates[i..., rest...] put at coords: kind set, add, sub, mul, div, max, min.

        Applied in the order of i (so "set" keeps the last); out-of-range coordinates are ignored.
        """
        return self._node(Op.SCATTER, (base, updates, *coords), base.shape, base.dtype, (kind, tuple(axes)))

    def random(self, state: Node, n: Extent, run: int = 1, skip: int = 1) -> Node:
        """n uint32 words of the Philox-4x32-10 stream at `state` (uint32[6]: counter, key).

        `run` and `skip`: after every `run` blocks of 128 bits the stream goes on `skip` blocks after the first of
        them (TensorFlow gives each group of results with rejection a stretch of its own).
        """
        return self._node(Op.RANDOM, (state,), (n,), DType.U32, Random(run, skip))

    def sort(self, x: Node, axis: int, descending: bool = False, first: int | None = None) -> Node:
        """Stable sort along `axis`: the int32 positions (argsort), or the first of them; gather with them for the
        values. The axis must be as long as that at least."""
        shape = x.shape if first is None else (*x.shape[:axis], first, *x.shape[axis + 1 :])
        return self._node(Op.SORT, (x,), shape, DType.I32, Sort(axis, descending, first))

    def scan(self, kind: str, x: Node, axis: int, exclusive: bool = False, reverse: bool = False) -> Node:
        """Running sum or product along `axis`."""
        return self._node(Op.SCAN, (x,), x.shape, x.dtype, Scan(kind, axis, exclusive, reverse))

    def loop(self, loop: Loop, src: Sequence[Node]) -> list[Node]:
        """The outputs of a loop. src: first values of what is carried, the tensors that are sliced, and the rest."""
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
        """The outputs of a kernel in C, which reads all of its sources and writes all of its outputs."""
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
        """NumPy's broadcasting to `shape`: axes of size 1 repeat, missing leading axes are added."""
        shape = tuple(shape)
        if shape == x.shape:
            return x
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
        """x's axis i becomes axis axes[i] (increasing) of `shape`; the others repeat."""
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
        """out[i] = x[begin + i * step] per axis; steps may be negative. Bounds are the caller's duty."""
        step = tuple(step) if step is not None else (1,) * x.rank
        begin, size = tuple(begin), tuple(size)
        if size == x.shape and not any(begin) and all(s == 1 for s in step):
            return x
        return self._node(Op.SLICE, (x,), size, x.dtype, (begin, step))

    def pad(self, x: Node, low: Sequence[Extent], high: Sequence[Extent], value: Node | float = 0,
            interior: Sequence[int] | None = None) -> Node:  # fmt: skip
        """`value` (a scalar node or number) around x and, with `interior`, between its elements."""
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
        """Sliding windows: axis a keeps the window positions, and one new axis per entry of `axes` is appended
        for the offset in the window: out[.., o, .., k] = x[.., o * stride + k * dilation, ..]."""
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
        """The parts one after the other along `axis`."""
        parts = [p for p in parts if p.shape[axis] != 0] or list(parts[:1])
        if len(parts) == 1:
            return parts[0]
        shape = list(parts[0].shape)
        shape[axis] = 0
        for p in parts:
            shape[axis] = ext.add(shape[axis], p.shape[axis])
        return self._node(Op.CONCAT, parts, shape, parts[0].dtype, axis)

    def reverse(self, x: Node, axes: Sequence[int]) -> Node:
        """x with the order along `axes` turned round."""
        begin: list[Extent] = [0] * x.rank
        step = [1] * x.rank
        for a in axes:
            begin[a], step[a] = ext.add(x.shape[a], -1), -1
        return self.slice(x, begin, x.shape, step)


def broadcast_shapes(a: Shape, b: Shape) -> Shape:
    """NumPy's rule; ShapeError when the shapes do not broadcast."""
    rank = max(len(a), len(b))
    out: list[Extent] = []
    for m, n in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True):
        if m != n and m != 1 and n != 1:
            raise ShapeError(f"shapes {a} and {b} do not broadcast")
        out.append(n if m == 1 else m)
    return tuple(out)
