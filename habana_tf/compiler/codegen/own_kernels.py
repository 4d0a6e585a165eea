"""Code of the primitives with kernels of their own: RANDOM and SCAN here, SCATTER, SORT and PRODUCT in `scatter.py`,
`sort.py` and `product.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from habana_tf.compiler.body import Body
from habana_tf.compiler.code import Code, FunctionCall, WorkShare
from habana_tf.compiler.codegen.blocked_sums import block_end, cut, few
from habana_tf.compiler.codegen.emit import Function, Value, lane_numbers
from habana_tf.compiler.codegen.evaluator import Evaluator
from habana_tf.compiler.codegen.lanes import register_type
from habana_tf.compiler.codegen.philox import blocks
from habana_tf.compiler.codegen.product import emit_product
from habana_tf.compiler.codegen.scatter import emit_scatter
from habana_tf.compiler.codegen.sort import emit_sort
from habana_tf.compiler.codegen.vector_access import Val
from habana_tf.compiler.costs import SUM_BLOCK, THREAD_RANDOM_VECTORS, THREAD_SCANS
from habana_tf.compiler.primitive_classes import PRIMITIVES
from habana_tf.compiler.primitive_families import OwnKernel
from habana_tf.hardware.cpu import Target
from habana_tf.ir import extent as ext
from habana_tf.ir.primitives import Node, Op, check_complete

BufferNumbers = Mapping[Node, int]


def emit_single(body: Body, name: str, memory: BufferNumbers, nodes: list[Node], target: Target) -> Code:
    """The code of a primitive in EMITTERS; arguments as in `loops.emit_loop`."""
    assert body.core is not None
    fn = Function(name, target.rounds_to_bf16, target.masks_halves, target.converts_float16)
    work = EMITTERS[body.core.op](fn, body, body.core, memory, target.lanes)
    temps = [("temp", k) for k in range(len(work.temps))]
    call = FunctionCall(name, fn.text(), (*nodes, *temps), work.grid, work.grain)
    return Code((call,), frozenset(fn.declarations), work.temps)


def _random(fn: Function, body: Body, node: Node, memory: BufferNumbers, lanes: int) -> WorkShare:
    """Random words: a work item is `lanes` Philox blocks of 4 words."""
    state, out = fn.buffer(0), fn.buffer(1)
    n = node.shape[0]
    words = 4 * lanes
    ev = Evaluator(fn, {}, lanes, None)
    total = ev.number(n)
    with fn.loop("%begin", "%end") as item:
        first = fn.mul(item.index, lanes)
        vectors = blocks(fn, state, first, lanes, node.arg.run, node.arg.skip)
        flat = _interleave(fn, vectors, lanes)
        start = fn.mul(item.index, words)
        address = fn.offset(out, "i32", start)
        left = fn.sub(total, start)
        vector = f"<{words} x i32>"
        if isinstance(n, int) and n % words == 0:
            fn.store(vector, flat, address, 4)
        else:
            limit = fn.splat(words, "i64", left)
            mask = fn.op(f"icmp slt <{words} x i64> {lane_numbers('i64', words)}, {limit}")
            fn.masked_store("i32", words, flat, address, mask)
    return WorkShare(ext.ceil_div(n, words), THREAD_RANDOM_VECTORS)


def _interleave(fn: Function, vectors: list[Value], lanes: int) -> Value:
    """Word w of block b at position 4 * b + w."""
    t, t2 = f"<{lanes} x i32>", f"<{2 * lanes} x i32>"
    every = ", ".join(f"i32 {k}" for k in range(2 * lanes))
    low = fn.op(f"shufflevector {t} {vectors[0]}, {t} {vectors[1]}, <{2 * lanes} x i32> <{every}>")
    high = fn.op(f"shufflevector {t} {vectors[2]}, {t} {vectors[3]}, <{2 * lanes} x i32> <{every}>")
    order = ", ".join(f"i32 {w * lanes + b}" for b in range(lanes) for w in range(4))
    return fn.op(f"shufflevector {t2} {low}, {t2} {high}, <{4 * lanes} x i32> <{order}>")


def _scan(fn: Function, body: Body, node: Node, memory: BufferNumbers, lanes: int) -> WorkShare:
    """A scan: a work item per line along the axis. A cumulative sum is the sum of the preceding blocks plus that within
    its block, on each level of blocks (see `blocked_sums`)."""
    (x,), scan, places = body.inputs, node.arg, body.variables
    ev = Evaluator(fn, {n: k for n, k in memory.items() if n is not node}, 1, None)
    ev.written = {memory[node]}
    ev.preload(len(memory))
    others = [a for a in range(node.rank) if a != scan.axis]
    op, start = ("mul", "1") if scan.kind == "prod" else ("add", "0")
    lane = register_type(node.dtype)
    if node.dtype.is_float:
        start = "0x3FF0000000000000" if scan.kind == "prod" else "0x0000000000000000"
    n = ev.number(node.shape[scan.axis])
    with fn.loop("%begin", "%end") as each, ev.scope():
        item = each.index
        for a in reversed(others):
            ev.vars[places[a]] = fn.op(f"urem i64 {item}, {ev.number(node.shape[a])}")
            item = fn.op(f"udiv i64 {item}, {ev.number(node.shape[a])}")

        def joined(parts: Sequence[Value]) -> Value:
            return reduce(lambda a, b: ev.one.apply(op, [b, a], node.dtype, node.dtype), reversed(parts))

        def line(first: Value, stop: Value, sizes: Sequence[int], before: list[Value]) -> Value:
            """Stores the results of a block, given the sum of preceding blocks (if any); gives the block's sum."""
            step = sizes[0] if sizes else 1
            with fn.loop(first, stop, step, [(lane, start)]) as loop, ev.scope():
                at, own = loop.index, loop.carried[0]
                if sizes:
                    part = line(at, block_end(fn, at, step, first, stop), sizes[1:], [joined([*before, own])])
                    loop.next = [joined([own, part])]
                else:
                    place = fn.sub(fn.sub(n, "1"), at) if scan.reverse else at
                    ev.vars[places[scan.axis]] = place
                    total = joined([own, ev.value(x).name])
                    result = joined([*before, own if scan.exclusive else total])
                    ev.store(memory[node], node.dtype, ext.ravel(map(ext.of, places), node.shape), Val(result, True))
                    loop.next = [total]
            return loop.results[0]

        first: Value = "0"
        size = node.shape[scan.axis]
        rounds = node.dtype.is_float and scan.kind == "sum"
        if rounds and not isinstance(size, int):  # beside a few numbers the blocks around them show
            first = few(fn, "0", n, SUM_BLOCK)
            line("0", first, (), [])
        line(first, n, cut(size) if rounds else (), [])
    return WorkShare(ext.product(node.shape[a] for a in others), THREAD_SCANS)


EMITTERS: dict[Op, Callable[[Function, Body, Node, BufferNumbers, int], WorkShare]] = {
    Op.RANDOM: _random,
    Op.SCATTER: emit_scatter,
    Op.SCAN: _scan,
    Op.SORT: emit_sort,
    Op.PRODUCT: emit_product,
}
"""Emits the function of a primitive. Temporaries follow the nodes in the kernel's list of buffers."""

check_complete(
    EMITTERS,
    (op for op, what in PRIMITIVES.items() if isinstance(what, OwnKernel)),
    "compiler/codegen/own_kernels.py: EMITTERS",
    "a function that writes its code",
)
