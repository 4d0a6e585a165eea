"""Code for the primitives that have a kernel of their own: RANDOM, SCATTER, SCAN, and SORT by way of `sort.py`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from .. import extent as ext
from ..dtypes import DType
from ..extent import Extent, Var
from ..ir import Node, Op
from ..kernels import Call, Code
from ..views import Unfit, strides
from .emit import Function, Value
from .expr import Evaluator, Val
from .lanes import memory_type, register_type
from .philox import blocks
from .sort import emit_sort


def emit_single(node: Node, name: str, memory: Mapping[Node, int], nodes: list[Node], lanes: int, bf16: bool) -> Code:
    """The function of RANDOM, SCATTER, SCAN or SORT; arguments as in `loops.emit_loop`."""
    fn = Function(name, bf16)
    if node.op is Op.SORT:
        return emit_sort(fn, node, memory, nodes)
    if node.op is Op.RANDOM:
        grid, grain = _random(fn, node, lanes)
    elif node.op is Op.SCATTER:
        grid, grain = _scatter(fn, node, memory, len(nodes), lanes)
    elif node.op is Op.SCAN:
        grid, grain = _scan(fn, node, memory, len(nodes))
    else:
        raise Unfit(f"{node.op.name.lower()} has no kernel")
    return Code((Call(name, fn.text(), tuple(nodes), grid, grain),), frozenset(fn.declarations))


def _random(fn: Function, node: Node, lanes: int) -> tuple[Extent, int]:
    """A work item is `lanes` Philox blocks: 4 * lanes words, stored in order."""
    state, out = fn.buffer(0), fn.buffer(1)
    n = node.shape[0]
    words = 4 * lanes
    ev = Evaluator(fn, {}, lanes, None)
    total = ev.number(n)
    with fn.loop("%begin", "%end") as item:
        first = fn.integer("mul", item.index, lanes)
        vectors = blocks(fn, state, first, lanes, node.arg.run, node.arg.skip)
        flat = _interleave(fn, vectors, lanes)
        start = fn.integer("mul", item.index, words)
        address = fn.offset(out, "i32", start)
        left = fn.integer("sub", total, start)
        vector = f"<{words} x i32>"
        if isinstance(n, int) and n % words == 0:
            fn.store(vector, flat, address, 4)
        else:
            limit = fn.splat(words, "i64", left)
            steps = "<" + ", ".join(f"i64 {k}" for k in range(words)) + ">"
            mask = fn.op(f"icmp slt <{words} x i64> {steps}, {limit}")
            fn.masked_store("i32", words, flat, address, mask)
    return ext.div(ext.add(n, words - 1), words), 256


def _interleave(fn: Function, vectors: list[Value], lanes: int) -> Value:
    """Word w of block b at position 4 * b + w."""
    t, t2 = f"<{lanes} x i32>", f"<{2 * lanes} x i32>"
    every = ", ".join(f"i32 {k}" for k in range(2 * lanes))
    low = fn.op(f"shufflevector {t} {vectors[0]}, {t} {vectors[1]}, <{2 * lanes} x i32> <{every}>")
    high = fn.op(f"shufflevector {t} {vectors[2]}, {t} {vectors[3]}, <{2 * lanes} x i32> <{every}>")
    order = ", ".join(f"i32 {w * lanes + b}" for b in range(lanes) for w in range(4))
    return fn.op(f"shufflevector {t2} {low}, {t2} {high}, <{4 * lanes} x i32> <{order}>")


def _scatter(fn: Function, node: Node, memory: Mapping[Node, int], count: int, lanes: int) -> tuple[Extent, int]:
    """Updates in order; work items share out the axes that are not indexed. The base is in the output already."""
    kind, axes = node.arg
    updates, coords = node.src[1], node.src[2:]
    lead = coords[0].rank
    rest = [a for a in range(node.rank) if a not in axes]
    steps = strides(node.shape)
    inner = Var("r", node.shape[rest[-1]]) if rest and node.shape[rest[-1]] != 1 else None
    ev = Evaluator(fn, {n: k for n, k in memory.items() if n is not node}, 1, inner)
    ev.written = {memory[node]}
    ev.preload(count)
    index: list[Extent] = []
    with fn.loop("%begin", "%end") as each, ExitStack() as stack:
        stack.enter_context(ev.scope())
        item = each.index
        offset: Extent = 0
        inner_index: dict[int, Extent] = {}
        for a in reversed(rest):
            v = Var(f"r{a}", node.shape[a]) if inner is None or a != rest[-1] else inner
            size = ev.number(node.shape[a])
            ev.vars[v] = fn.op(f"urem i64 {item}, {size}")
            item = fn.op(f"udiv i64 {item}, {size}")
            inner_index[a] = ext.of(v)
            offset = ext.add(offset, ext.mul(ext.of(v), steps[a]))
        for k, n in enumerate(coords[0].shape):
            v = Var(f"u{k}", n)
            loop = stack.enter_context(fn.loop("0", ev.number(n)))
            stack.enter_context(ev.scope())
            ev.vars[v] = loop.index
            index.append(ext.of(v))
        at = ev.number(offset)
        inside: Value = "true"
        for c, a in zip(coords, axes, strict=True):
            x = ev.one.cast(ev.value(c, tuple(index[:lead])).name, c.dtype, DType.I64)
            ok = fn.op(f"icmp ult i64 {x}, {ev.number(node.shape[a])}")
            inside = fn.op(f"and i1 {inside}, {ok}")
            at = fn.integer("add", at, fn.integer("mul", x, ev.number(steps[a])))
        stack.enter_context(fn.when(inside))
        stack.enter_context(ev.scope())
        new = ev.value(updates, (*index, *(inner_index[a] for a in rest)))
        if kind != "set":
            old = ev.load(memory[node], node.dtype, 0, at)
            name = ev.one.apply(kind, [old.name, new.name], node.dtype, node.dtype)
            new = Val(name, True)
        _store_at(fn, ev, memory[node], node.dtype, at, new)
    grid = ext.product(node.shape[a] for a in rest)
    depth = ext.product(coords[0].shape)
    return grid, max(1, 16384 // max(depth, 1)) if isinstance(depth, int) else 64


def _store_at(fn: Function, ev: Evaluator, buffer: int, dtype: DType, at: Value, value: Val) -> None:
    raw = ev.one.to_memory(value.name, dtype)
    lane = memory_type(dtype)
    fn.store(lane, raw, fn.offset(ev.pointer(buffer), lane, at), dtype.bytes)


def _scan(fn: Function, node: Node, memory: Mapping[Node, int], count: int) -> tuple[Extent, int]:
    """One work item per line along the axis."""
    x, scan = node.src[0], node.arg
    ev = Evaluator(fn, {n: k for n, k in memory.items() if n is not node}, 1, None)
    ev.written = {memory[node]}
    ev.preload(count)
    others = [a for a in range(node.rank) if a != scan.axis]
    op, start = ("mul", "1") if scan.kind == "prod" else ("add", "0")
    lane = register_type(node.dtype)
    if node.dtype.is_float:
        start = "0x3FF0000000000000" if scan.kind == "prod" else "0x0000000000000000"
    n = ev.number(node.shape[scan.axis])
    with fn.loop("%begin", "%end") as each, ev.scope():
        item = each.index
        index: dict[int, Extent] = {}
        for a in reversed(others):
            v = Var(f"o{a}", node.shape[a])
            ev.vars[v] = fn.op(f"urem i64 {item}, {ev.number(node.shape[a])}")
            item = fn.op(f"udiv i64 {item}, {ev.number(node.shape[a])}")
            index[a] = ext.of(v)
        with fn.loop("0", n, 1, [(lane, start)]) as loop, ev.scope():
            v = Var("s", node.shape[scan.axis])
            at = loop.index
            ev.vars[v] = fn.integer("sub", fn.integer("sub", n, "1"), at) if scan.reverse else at
            index[scan.axis] = ext.of(v)
            full = tuple(index[a] for a in range(node.rank))
            value = ev.value(x, full)
            total = ev.one.apply(op, [loop.carried[0], value.name], node.dtype, node.dtype)
            ev.store(
                memory[node],
                node.dtype,
                ext.ravel(full, node.shape),
                Val(loop.carried[0] if scan.exclusive else total, True),
            )
            loop.next = [total]
    return ext.product(node.shape[a] for a in others), 64
