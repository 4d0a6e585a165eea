"""Interprets programs in NumPy: the executable specification of the primitives.

It is the oracle of the compiler's tests, folds constants (`constant_folding`), and runs clusters that cannot be
compiled. Clear before fast.

    shapes     all extents are ints here; `bind` replaces symbols by numbers
    sums       long sums of floats are taken in float64 or in blocks: the order of terms is not specified
    bfloat16   a MAP computes in float32 and rounds once to nearest even; sums and products have the accumulator type
               and are rounded once. Compiled code may keep float32's precision between MAPs of a kernel, where no
               operation can observe it (see `compiler.body`)
    integers   wrap; division and remainder by zero give 0; a float outside an integer type's range casts to an
               unspecified value; a shift by the width or more (or a negative one) gives 0, or -1 for a negative number
               shifted right; an integer's exponent counts as unsigned
    NaN        comparisons as in IEEE 754; max, min, argmax and argmin propagate NaN; sort puts NaN last (first when
               descending)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from habana_tf.ir import extent as ext
from habana_tf.ir import libraries, loop_nest
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Loop, Node, Op, Program, beside, block_axis, check_complete
from habana_tf.ir.scalar_functions import apply_scalar

DEPTH = 4096
"""Terms of a sum of products per block: NumPy's library adds them one after the other."""


def run(program: Program, inputs: Sequence[Any], states: Sequence[Any] = ()) -> list[Any]:
    """The program's outputs as C-contiguous arrays.

    inputs: one array per `program.inputs`, of that node's type. states: one uint32[6] per random state (counter,
    key). No array is changed.
    """
    values: dict[Node, Any] = dict(zip(program.inputs, inputs, strict=True))
    for node, value in values.items():
        if tuple(value.shape) != node.shape or value.dtype != node.dtype.numpy:
            raise ValueError(f"input {node} is given an array {value.dtype}{list(value.shape)}")
    nodes = program.nodes()
    last_use = {source: k for k, node in enumerate(nodes) for source in node.src}
    keep = set(program.outputs)
    with np.errstate(all="ignore"):
        for k, node in enumerate(nodes):
            if node not in values:
                if node.op is Op.INPUT:
                    values[node] = np.asarray(states[node.arg[1]], np.uint32)
                elif node.op in _SEVERAL:
                    outputs = _SEVERAL[node.op](node, [values[s] for s in node.src])
                    values.update((n, outputs[n.arg[1]]) for n in nodes if beside(n, node))
                else:
                    values[node] = evaluate(node, [values[s] for s in node.src])
            for source in set(node.src):
                if last_use[source] == k and source not in keep:
                    del values[source]
    return [np.asarray(values[n], order="C") for n in program.outputs]


def bind(program: Program, dims: Sequence[int]) -> Program:
    """The program with dims[i] for symbol i."""
    numbers = list(dims)
    new: dict[Node, Node] = {}
    for node in (*program.inputs, *program.nodes()):
        if node not in new:
            shape = tuple(ext.evaluate(n, numbers) for n in node.shape)
            arg = _bound(node.arg, numbers)
            new[node] = Node(node.op, tuple(new[s] for s in node.src), shape, node.dtype, arg)
    states: list[ext.Extent] = [ext.evaluate(n, numbers) for n in program.states]
    return Program([new[n] for n in program.inputs], [new[n] for n in program.outputs], states)


def _bound(arg: Any, dims: list[int]) -> Any:
    """A node's argument with symbols replaced, also within tuples."""
    if isinstance(arg, ext.Expr):
        return ext.evaluate(arg, dims)
    if isinstance(arg, tuple):
        return tuple(_bound(a, dims) for a in arg)
    if isinstance(arg, Loop):
        trips, sliced, stacked = (_bound(x, dims) for x in (arg.trips, arg.sliced, arg.stacked))
        return replace(arg, trips=trips, body=bind(arg.body, dims), sliced=sliced, stacked=stacked)
    return arg.bound(dims) if isinstance(arg, loop_nest.LoopNest) else arg


def evaluate(node: Node, src: list[Any]) -> Any:
    """The value of one node, given those of its sources."""
    out = RULES[node.op](node, *src)
    assert out.shape == node.shape and out.dtype == node.dtype.numpy, f"{node}: {out.dtype}{list(out.shape)}"
    return out


def dims(node: Node) -> tuple[int, ...]:
    """The shape of a node without symbolic extents."""
    assert all(isinstance(n, int) for n in node.shape), f"{node} has a symbolic shape: bind the program first"
    return cast("tuple[int, ...]", node.shape)


def widen(x: Any, dtype: DType) -> Any:
    """x in its accumulator type."""
    return x.astype(dtype.accumulator.numpy, copy=False)


def _const(node: Node) -> Any:
    dtype, arg = node.dtype.numpy, node.arg
    if isinstance(arg, bytes):
        return np.frombuffer(arg, dtype).reshape(dims(node))
    return np.array(float.fromhex(arg) if isinstance(arg, str) else arg).astype(dtype)


def _reduce(node: Node, x: Any) -> Any:
    kind, axes = node.arg
    dtype = node.src[0].dtype
    wide = widen(x, dtype)
    if kind in ("argmax", "argmin"):
        return (np.argmax if kind == "argmax" else np.argmin)(wide, axis=axes[0]).astype(node.dtype.numpy)
    if kind in ("max", "min"):
        extreme = np.maximum if kind == "max" else np.minimum
        out = extreme.reduce(wide, axis=axes, initial=dtype.limit(highest=kind == "min"))
    elif kind == "sum":
        out = _sum(wide, axes)
    else:
        out = np.multiply.reduce(wide, axis=axes, dtype=wide.dtype)
    return np.asarray(out).astype(node.dtype.numpy)


def _sum(x: Any, axes: Sequence[int]) -> Any:
    """The sum over some axes, of x's type; floats in float64 and pairwise, as NumPy adds contiguous elements."""
    kept = [k for k in range(x.ndim) if k not in axes]
    shape = [x.shape[k] for k in kept]
    flat = x.transpose([*kept, *axes]).reshape([*shape, math.prod(x.shape[k] for k in axes)])
    wide = np.float64 if x.dtype.kind == "f" else x.dtype
    return np.add.reduce(np.ascontiguousarray(flat), axis=-1, dtype=wide).astype(x.dtype)


def _contract(node: Node, a: Any, b: Any) -> Any:
    spec = node.arg
    a, b = a.astype(spec.accumulator.numpy), b.astype(spec.accumulator.numpy)
    if spec.largest is not None:
        a, b = (
            np.where(np.abs(x) > spec.largest, np.nan, x).astype(x.dtype) if s.dtype is DType.F8E4M3 else x
            for x, s in zip((a, b), node.src, strict=True)
        )
    sizes = dict(zip((*spec.a, *spec.b), (*a.shape, *b.shape), strict=True))
    batch = [i for i in spec.out if i in spec.a and i in spec.b]
    rows = [i for i in spec.a if i not in spec.b]
    columns = [i for i in spec.b if i not in spec.a]
    summed = [i for i in spec.a if i in spec.b and i not in spec.out]

    def size(labels: list[int]) -> int:
        return int(np.prod([sizes[i] for i in labels], dtype=np.int64))

    left = a.transpose([spec.a.index(i) for i in batch + rows + summed])
    right = b.transpose([spec.b.index(i) for i in batch + summed + columns])
    left = left.reshape(size(batch), size(rows), size(summed))
    right = right.reshape(size(batch), size(summed), size(columns))
    labels = batch + rows + columns
    out = _matmul(left, right).reshape([sizes[i] for i in labels])
    out = _sum(out, [k for k, i in enumerate(labels) if i not in spec.out])  # labels of one operand only
    labels = [i for i in labels if i in spec.out]
    return out.transpose([labels.index(i) for i in spec.out]).astype(node.dtype.numpy)


def _matmul(a: Any, b: Any) -> Any:
    """Batched matrix products; blocks of DEPTH terms are added up in float64."""
    depth = a.shape[-1]
    if depth <= DEPTH:
        return np.matmul(a, b)
    parts = (np.matmul(a[..., k : k + DEPTH], b[..., k : k + DEPTH, :]) for k in range(0, depth, DEPTH))
    return sum(parts, np.zeros((), np.float64)).astype(a.dtype)


def _in_range(shape: Sequence[int], coords: Sequence[Any], axes: Sequence[int]) -> Any:
    valid = np.ones(coords[0].shape, bool)
    for c, a in zip(coords, axes, strict=True):
        valid &= (c >= 0) & (c < shape[a])
    return valid


def _axes_first(x: Any, axes: Sequence[int]) -> Any:
    return x.transpose([*axes, *(k for k in range(x.ndim) if k not in axes)])


def _gather(node: Node, x: Any, *coords: Any) -> Any:
    out = np.zeros(dims(node), x.dtype)
    valid = _in_range(x.shape, coords, node.arg)
    out[valid] = _axes_first(x, node.arg)[tuple(c[valid].astype(np.int64) for c in coords)]
    return out


_SCATTER: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


def _scatter(node: Node, base: Any, updates: Any, *coords: Any) -> Any:
    kind, axes = node.arg
    out = base.copy() if kind == "set" else widen(base.copy(), node.dtype)
    if kind in ("add", "sub") and node.dtype.is_float:
        out = out.astype(np.float64)
    view = _axes_first(out, axes)
    valid = _in_range(base.shape, coords, axes)
    where = tuple(c[valid].astype(np.int64) for c in coords)
    if kind == "set":
        view[where] = updates[valid]
    elif kind == "div" and node.dtype.is_int:
        for index, value in zip(zip(*where, strict=True), updates[valid], strict=True):
            view[index] = apply_scalar("div", node.dtype, [node.dtype] * 2, [view[index], value])
    else:
        _SCATTER[kind].at(view, where, widen(updates[valid], node.dtype))
    return out.astype(node.dtype.numpy, copy=False)


def _random(node: Node, state: Any) -> Any:
    n = dims(node)[0]
    blocks = np.arange(-(-n // 4), dtype=np.uint64)
    run, skip = np.uint64(node.arg.run), np.uint64(node.arg.skip)
    return philox(state, blocks // run * skip + blocks % run).reshape(-1)[:n]


def philox(state: Any, steps: Any) -> Any:
    """uint32[n, 4]: the Philox-4x32-10 blocks at counter + steps[i] (uint64[n]) of a state (counter, key)."""
    lows = steps + np.uint64(int(state[0]) | int(state[1]) << 32)
    highs = (lows < steps).astype(np.uint64) + np.uint64(int(state[2]) | int(state[3]) << 32)
    mask, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    c0, c1, c2, c3 = lows & mask, lows >> shift, highs & mask, highs >> shift
    k0, k1 = int(state[4]), int(state[5])
    for _ in range(10):
        p0, p1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1 = (p1 >> shift) ^ c1 ^ np.uint64(k0), p1 & mask
        c2, c3 = (p0 >> shift) ^ c3 ^ np.uint64(k1), p0 & mask
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1).astype(np.uint32)


def _sort(node: Node, x: Any) -> Any:
    axis = node.arg.axis
    x = widen(x, node.src[0].dtype)
    if node.arg.descending:
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    return np.take(order, range(node.arg.first or x.shape[axis]), axis).astype(np.int32)


def _scan(node: Node, x: Any) -> Any:
    scan = node.arg
    ufunc = np.add if scan.kind == "sum" else np.multiply
    x = np.moveaxis(widen(x, node.dtype), scan.axis, 0)
    x = x[::-1] if scan.reverse else x
    wide = np.float64 if node.dtype.is_float and scan.kind == "sum" else x.dtype
    out = ufunc.accumulate(x, axis=0, dtype=wide).astype(x.dtype)
    if scan.exclusive and len(x):
        first = np.full_like(out[:1], 0 if scan.kind == "sum" else 1)
        out = np.concatenate([first, out[:-1]])
    out = out[::-1] if scan.reverse else out
    return np.moveaxis(out, 0, scan.axis).astype(node.dtype.numpy)


def _slice(node: Node, x: Any) -> Any:
    begin, step = node.arg
    index = np.ix_(*(b + np.arange(n) * s for b, n, s in zip(begin, dims(node), step, strict=True)))
    return x[index] if index else x


def _pad(node: Node, x: Any, value: Any) -> Any:
    low, _, interior = node.arg
    out = np.full(dims(node), value, x.dtype)
    out[tuple(slice(lo, lo + n * (i + 1), i + 1) for lo, n, i in zip(low, x.shape, interior, strict=True))] = x
    return out


def _window(node: Node, x: Any) -> Any:
    axes, _, stride, dilation = node.arg
    steps = list(x.strides)
    for a, s in zip(axes, stride, strict=True):
        steps[a] *= s
    steps += [x.strides[a] * d for a, d in zip(axes, dilation, strict=True)]
    return np.lib.stride_tricks.as_strided(x, dims(node), steps, writeable=False)


def _repeat(loop: Loop, src: Sequence[Any]) -> list[Any]:
    """The outputs of a LOOP, block by block."""
    if loop.blocks == 1:
        return _iterate(loop, src)
    rows = range(loop.carried, loop.carried + len(loop.sliced))
    blocks = []
    for block in range(loop.blocks):
        own = []
        for k, (x, inner) in enumerate(zip(src, loop.body.inputs, strict=True)):
            axis = block_axis(inner.shape)
            if loop.apart[k] and axis is not None:
                own.append(np.split(x, loop.blocks, axis + (k in rows))[block])
            else:
                own.append(x)
        blocks.append(_iterate(loop, own))
    out = []
    for k, (node, parts) in enumerate(zip(loop.body.outputs, zip(*blocks, strict=True), strict=True)):
        axis = block_axis(node.shape)
        assert axis is not None
        out.append(np.concatenate(parts, axis + (k >= loop.carried)))
    return out


def _iterate(loop: Loop, src: Sequence[Any]) -> list[Any]:
    """The outputs of one block of a LOOP."""
    sliced = slice(loop.carried, loop.carried + len(loop.sliced))
    carried, wholes = list(src[: loop.carried]), list(src[sliced.stop :])
    trips = ext.evaluate(loop.trips, [])
    stacked = [np.zeros((trips, *dims(n)), n.dtype.numpy) for n in loop.body.outputs[loop.carried :]]
    for t in range(trips):
        rows = [x[start + t * step] for x, (start, step) in zip(src[sliced], loop.sliced, strict=True)]
        outputs = run(loop.body, [np.asarray(x) for x in (*carried, *rows, *wholes)])
        carried = outputs[: loop.carried]
        for out, value, (start, step) in zip(stacked, outputs[loop.carried :], loop.stacked, strict=True):
            out[start + t * step] = value
    return [*carried, *stacked]


_SEVERAL: dict[Op, Callable[[Node, Sequence[Any]], list[Any]]] = {
    Op.LOOP: lambda node, src: _repeat(node.arg[0], src),
    Op.CUSTOM: lambda node, src: libraries.run(node.arg[0], node.src, src),
}
"""All outputs at once of primitives with several outputs, each of which is a node."""

RULES: dict[Op, Callable[..., Any]] = {
    Op.CONST: _const,
    Op.IOTA: lambda node: np.arange(dims(node)[0]).astype(node.dtype.numpy),
    Op.EXTENT: lambda node: np.array(node.arg, node.dtype.numpy),
    Op.MAP: lambda node, *src: apply_scalar(node.arg, node.dtype, [s.dtype for s in node.src], src),
    Op.REDUCE: _reduce,
    Op.CONTRACT: _contract,
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
    Op.RANDOM: _random,
    Op.SORT: _sort,
    Op.SCAN: _scan,
    Op.PRODUCT: lambda node, a, b: loop_nest.evaluate(node.arg, a.reshape(-1), b.reshape(-1), dims(node)),
    Op.RESHAPE: lambda node, x: x.reshape(dims(node)),
    Op.EXPAND: lambda node, x: np.broadcast_to(x, dims(node)),
    Op.PERMUTE: lambda node, x: x.transpose(node.arg),
    Op.SLICE: _slice,
    Op.PAD: _pad,
    Op.WINDOW: _window,
    Op.CONCAT: lambda node, *parts: np.concatenate(parts, axis=node.arg),
    Op.LOOP: lambda node, *src: _SEVERAL[Op.LOOP](node, src)[node.arg[1]],
    Op.CUSTOM: lambda node, *src: _SEVERAL[Op.CUSTOM](node, src)[node.arg[1]],
}

check_complete(RULES, set(Op) - {Op.INPUT}, "ir/interpreter.py: RULES", "a function of arrays")
