"""Code for SORT: a stable merge sort of positions, one work item per line.

Each element becomes one integer: its key, monotonic in its value, above its position. No two are equal, so merging
needs no care for stability, and positions travel with their keys:

    word = key << bits of the key | position          i64 for elements of up to 32 bits, i128 for 64

Runs of 1, 2, 4, ... elements are merged from one array of words into the other and back; the merge is branch-free. NaN
counts as larger than every number, and -0 as equal to 0. A falling order sorts by the inverted keys.

Where few of many are wanted, only words that may be among them are kept, and merged from time to time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...ir import extent as ext
from ...ir.dtypes import DType
from ...ir.extent import Extent, nominal
from ...ir.primitives import Node
from ..body import Body
from ..code import Work
from .emit import Function, Value
from .evaluator import Evaluator
from .lanes import register_type

WORTH = 4
"""How many times as many elements as are wanted there must be for it to be worth leaving the others out."""
SORTED = 256
"""Words that are merged together at least."""
STRETCH = 64
"""Elements that are compared before it is seen whether there is room for more."""


def emit_sort(fn: Function, body: Body, node: Node, memory: Mapping[Node, int], lanes: int) -> Work:
    """Writes the function. memory: the number of each buffer; the arrays of words follow."""
    (x,), places = body.inputs, body.variables
    axis, descending, first = node.arg.axis, node.arg.descending, node.arg.first
    n = node.src[0].shape[axis]
    few = first if first is not None and nominal(n) >= WORTH * first else None
    bits = 64 if x.dtype.bits > 32 else 32
    word = f"i{2 * bits}"
    step = 2 * bits // 8
    others = [a for a in range(node.rank) if a != axis]
    rows = ext.product(node.shape[a] for a in others)
    ev = Evaluator(fn, {k: v for k, v in memory.items() if k is not node}, 1, None)
    ev.written = {memory[node]}
    ev.preload(len(memory))
    words = [fn.buffer(len(memory)), fn.buffer(len(memory) + 1)]
    room: Extent = n if few is None else max(2 * few, SORTED) + STRETCH
    length = ev.number(n)
    state = [fn.op(f"alloca {type_}, align 16") for type_ in ("i64", word)] if few else []

    def element(at: Value) -> Value:
        """The word of an element."""
        ev.vars[places[axis]] = at
        key = _key(fn, ev.value(x).name, x.dtype, bits, descending)
        high = fn.op(f"shl {word} {fn.op(f'zext i{bits} {key} to {word}')}, {bits}")
        return fn.op(f"or {word} {high}, {at if word == 'i64' else fn.op(f'zext i64 {at} to {word}')}")

    with fn.loop("%begin", "%end") as each, ev.scope():
        mine = [fn.offset(w, word, fn.integer("mul", each.index, ev.number(room))) for w in words]
        item = each.index
        for a in reversed(others):
            size = ev.number(node.shape[a])
            ev.vars[places[a]] = fn.op(f"urem i64 {item}, {size}")
            item = fn.op(f"udiv i64 {item}, {size}")
        if few is None:
            with fn.loop("0", length) as loop, ev.scope():
                fn.store(word, element(loop.index), fn.offset(mine[0], word, loop.index), step)
            final = _merge_all(fn, mine, word, step, length, n if isinstance(n, int) else None)
        else:
            assert isinstance(room, int)
            final = _merge_few(fn, ev, element, mine, word, step, length, few, room, state)
        with fn.loop("0", ev.number(node.shape[axis])) as loop, ev.scope():
            found = fn.load(word, fn.offset(final, word, loop.index), step)
            ev.vars[places[axis]] = loop.index
            at = ev.number(ext.ravel(map(ext.of, places), node.shape))
            position = fn.op(f"trunc {word} {found} to i32")
            fn.store("i32", position, fn.offset(ev.pointer(memory[node]), "i32", at), 4)
    space = ext.mul(rows, ext.mul(room, step))
    grain = max(1, 1024 // max(nominal(n), 1))
    return Work(rows, grain, (space, space))


def _merge_few(
    fn: Function, ev: Evaluator, element: Callable[[Value], Value], words: list[Value], word: str, step: int,
    length: Value, few: int, room: int, state: list[Value],
) -> Value:  # fmt: skip
    """The array with the `few` least words in order. What is less than the last of those found so far is put behind
    them; when there might be no room for more, all are merged, and the few least stay.

    state: a place each for how many words there are, and for the one that others must be less than.
    """
    fn.store("i64", "0", state[0], 8)
    fn.store(word, "-1", state[1], step)
    with fn.loop("0", length, STRETCH) as stretch, ev.scope():
        stop = fn.minimum(fn.integer("add", stretch.index, STRETCH), length)
        bound = fn.load(word, state[1], step)
        with fn.loop(stretch.index, stop, 1, [("i64", fn.load("i64", state[0], 8))]) as loop, ev.scope():
            (count,) = loop.carried
            candidate = element(loop.index)
            fn.store(word, candidate, fn.offset(words[0], word, count), step)
            less = fn.op(f"icmp ult {word} {candidate}, {bound}")
            loop.next = [fn.integer("add", count, fn.op(f"zext i1 {less} to i64"))]
        (count,) = loop.results
        fn.store("i64", count, state[0], 8)
        with fn.when(fn.less(str(room - STRETCH), count)):
            merged = _merge_all(fn, words, word, step, count, None)
            with fn.loop("0", str(few)) as loop:
                value = fn.load(word, fn.offset(merged, word, loop.index), step)
                fn.store(word, value, fn.offset(words[0], word, loop.index), step)
            fn.store(word, fn.load(word, fn.offset(words[0], word, str(few - 1)), step), state[1], step)
            fn.store("i64", str(few), state[0], 8)
    return _merge_all(fn, words, word, step, fn.load("i64", state[0], 8), None)


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


def _passes(fn: Function, length: Value, n: int | None) -> Value:
    """How often runs are merged until one is left: as often as 1 is doubled until it is n."""
    if n is not None:
        return str(max(n - 1, 0).bit_length())
    zeros = fn.call("i64", "llvm.ctlz.i64", ("i64", fn.integer("sub", length, 1)), ("i1", "false"))
    return fn.integer("sub", 64, zeros)


def _merge_all(fn: Function, words: list[Value], word: str, step: int, length: Value, n: int | None) -> Value:
    """Merges runs of growing width until one is left; returns the array it is in. n: the length, if it is known."""
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
    if n is not None:
        return words[int(passes) % 2]
    odd = fn.op(f"trunc i64 {passes} to i1")
    return fn.op(f"select i1 {odd}, ptr {words[1]}, ptr {words[0]}")
