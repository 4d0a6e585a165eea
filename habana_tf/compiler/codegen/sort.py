"""Code for SORT: a stable merge sort of positions, one work item per line.

Each element becomes one integer: its key, monotonic in its value, above its position. No two are equal, so merging
needs no care for stability, and positions travel with their keys:

    word = key << bits of the key | position          i64 for elements of up to 32 bits, i128 for 64

Runs of 1, 2, 4, ... elements are merged from one array of words into the other and back; the merge is branch-free. NaN
counts as larger than every number, and -0 as equal to 0. A falling order sorts by the inverted keys.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import extent as ext
from ...ir.dtypes import DType
from ...ir.extent import Extent
from ...ir.primitives import Node
from ..body import Body
from ..code import Work
from .emit import Function, Value
from .evaluator import Evaluator
from .lanes import register_type


def emit_sort(fn: Function, body: Body, node: Node, memory: Mapping[Node, int], lanes: int) -> Work:
    """Writes the function. memory: the number of each buffer; the arrays of words follow."""
    (x,), places = body.inputs, body.variables
    axis, descending = node.arg
    n = node.shape[axis]
    bits = 64 if x.dtype.bits > 32 else 32
    word = f"i{2 * bits}"
    step = 2 * bits // 8
    others = [a for a in range(node.rank) if a != axis]
    rows = ext.product(node.shape[a] for a in others)
    ev = Evaluator(fn, {k: v for k, v in memory.items() if k is not node}, 1, None)
    ev.written = {memory[node]}
    ev.preload(len(memory))
    words = [fn.buffer(len(memory)), fn.buffer(len(memory) + 1)]
    length = ev.number(n)
    with fn.loop("%begin", "%end") as each, ev.scope():
        mine = [fn.offset(w, word, fn.integer("mul", each.index, n if isinstance(n, int) else length)) for w in words]
        item = each.index
        for a in reversed(others):
            size = ev.number(node.shape[a])
            ev.vars[places[a]] = fn.op(f"urem i64 {item}, {size}")
            item = fn.op(f"udiv i64 {item}, {size}")
        with fn.loop("0", length) as loop, ev.scope():
            ev.vars[places[axis]] = loop.index
            key = _key(fn, ev.value(x).name, x.dtype, bits, descending)
            high = fn.op(f"shl {word} {fn.op(f'zext i{bits} {key} to {word}')}, {bits}")
            low = loop.index if word == "i64" else fn.op(f"zext i64 {loop.index} to {word}")
            fn.store(word, fn.op(f"or {word} {high}, {low}"), fn.offset(mine[0], word, loop.index), step)
        final = _merge_all(fn, mine, word, step, length, n)
        with fn.loop("0", length) as loop, ev.scope():
            found = fn.load(word, fn.offset(final, word, loop.index), step)
            ev.vars[places[axis]] = loop.index
            at = ev.number(ext.ravel(map(ext.of, places), node.shape))
            position = fn.op(f"trunc {word} {found} to i32")
            fn.store("i32", position, fn.offset(ev.pointer(memory[node]), "i32", at), 4)
    space = ext.mul(rows, ext.mul(n, step))
    grain = max(1, 1024 // max(ext.nominal(n), 1))
    return Work(rows, grain, (space, space))


def _key(fn: Function, value: Value, dtype: DType, bits: int, descending: bool) -> Value:
    """An unsigned integer that orders as the value does."""
    lane, kind = register_type(dtype), f"i{bits}"
    top = -(1 << (bits - 1))
    if dtype.is_float:
        zero = "0.0"
        raw = fn.op(f"bitcast {lane} {fn.op(f'fadd {lane} {value}, {zero}')} to {kind}")  # -0 + 0 is 0
        flip = fn.op(f"or {kind} {fn.op(f'ashr {kind} {raw}, {bits - 1}')}, {top}")
        ordered = fn.op(f"xor {kind} {raw}, {flip}")
        nan = fn.op(f"fcmp uno {lane} {value}, {value}")
        key = fn.op(f"select i1 {nan}, {kind} -1, {kind} {ordered}")
    else:
        signed = dtype.kind == "i"
        key = value if lane == kind else fn.op(f"{'sext' if signed else 'zext'} {lane} {value} to {kind}")
        if signed:
            key = fn.op(f"xor {kind} {key}, {top}")
    return fn.op(f"xor {kind} {key}, -1") if descending else key


def _passes(fn: Function, length: Value, n: Extent) -> Value:
    """How often runs are merged until one is left: as often as 1 is doubled until it is n."""
    if isinstance(n, int):
        return str(max(n - 1, 0).bit_length())
    zeros = fn.call("i64", "llvm.ctlz.i64", ("i64", fn.integer("sub", length, 1)), ("i1", "false"))
    return fn.integer("sub", 64, zeros)


def _merge_all(fn: Function, words: list[Value], word: str, step: int, length: Value, n: Extent) -> Value:
    """Merges runs of growing width until one is left; returns the array it is in. length: n as a value."""
    passes, last = _passes(fn, length, n), fn.integer("sub", length, 1)
    with fn.loop("0", passes) as turn:
        width = fn.op(f"shl i64 1, {turn.index}")
        odd = fn.op(f"trunc i64 {turn.index} to i1")
        source = fn.op(f"select i1 {odd}, ptr {words[1]}, ptr {words[0]}")
        target = fn.op(f"select i1 {odd}, ptr {words[0]}, ptr {words[1]}")
        pair = fn.op(f"shl i64 {width}, 1")
        pairs = fn.op(f"udiv i64 {fn.integer('add', pair, last)}, {pair}")
        with fn.loop("0", pairs) as run:
            low = fn.integer("mul", run.index, pair)
            middle = fn.minimum(fn.integer("add", low, width), length)
            high = fn.minimum(fn.integer("add", low, pair), length)
            with fn.loop(low, high, 1, [("i64", low), ("i64", middle)]) as out:
                i, j = out.carried
                first = fn.load(word, fn.offset(source, word, fn.minimum(i, last)), step)
                second = fn.load(word, fn.offset(source, word, fn.minimum(j, last)), step)
                smaller = fn.op(f"icmp ult {word} {first}, {second}")
                left = fn.op(f"or i1 {smaller}, {fn.op(f'icmp sge i64 {j}, {high}')}")
                take = fn.op(f"and i1 {left}, {fn.less(i, middle)}")
                chosen = fn.op(f"select i1 {take}, {word} {first}, {word} {second}")
                fn.store(word, chosen, fn.offset(target, word, out.index), step)
                one = fn.op(f"zext i1 {take} to i64")
                out.next = [fn.integer("add", i, one), fn.integer("add", j, fn.integer("sub", "1", one))]
    if isinstance(n, int):
        return words[int(passes) % 2]
    odd = fn.op(f"trunc i64 {passes} to i1")
    return fn.op(f"select i1 {odd}, ptr {words[1]}, ptr {words[0]}")
