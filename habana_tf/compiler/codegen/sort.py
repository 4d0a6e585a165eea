"""Code of SORT: a stable sort of positions, a work item per line.

Each element becomes an integer with a key, monotonic in its value, in the upper bits and its position in the lower
ones. All are distinct, so the sort is stable, and positions move with their keys:

    word = key << bits of the key | position          i64 for elements of up to 32 bits, i128 for 64

Few are sorted by merging: runs of 1, 2, 4, ... words go back and forth between two arrays, without branches. Many are
sorted by the digits of their keys, from the lowest on. NaN is larger than every number, and -0 equals 0. A descending
sort inverts the keys.

For top-k of many elements only candidates are kept, and sorted from time to time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from habana_tf.compiler.body import Body
from habana_tf.compiler.code import WorkShare
from habana_tf.compiler.codegen.emit import Function, Value
from habana_tf.compiler.codegen.evaluator import Evaluator
from habana_tf.compiler.codegen.lanes import register_type
from habana_tf.compiler.costs import SORT_DIGITS, SORT_SELECTS, SORT_STRETCH, SORT_WORDS, THREAD_SORTED
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent, nominal
from habana_tf.ir.primitives import Node


def emit_sort(fn: Function, body: Body, node: Node, memory: Mapping[Node, int], lanes: int) -> WorkShare:
    """Emits the function. memory: the number of each buffer; the arrays of words follow."""
    (x,), places = body.inputs, body.variables
    axis, descending, first = node.arg.axis, node.arg.descending, node.arg.first
    n = node.src[0].shape[axis]
    few = first if first is not None and nominal(n) >= SORT_SELECTS * first else None
    bits = 64 if x.dtype.bits > 32 else 32
    word = f"i{2 * bits}"
    others = [a for a in range(node.rank) if a != axis]
    rows = ext.product(node.shape[a] for a in others)
    ev = Evaluator(fn, {k: v for k, v in memory.items() if k is not node}, 1, None)
    ev.written = {memory[node]}
    ev.preload(len(memory))
    arrays = [fn.buffer(len(memory)), fn.buffer(len(memory) + 1)]
    least = None if few is None else _Least(fn, word, few)
    many = least is None and (not isinstance(n, int) or n >= SORT_DIGITS)
    digits = _Digits(fn, word) if many else None
    room: Extent = n if least is None else least.room
    length = ev.number(n)

    def element(at: Value) -> Value:
        """The word of an element."""
        ev.vars[places[axis]] = at
        key = _key(fn, ev.value(x).name, x.dtype, bits, descending)
        high = fn.op(f"shl {word} {fn.op(f'zext i{bits} {key} to {word}')}, {bits}")
        return fn.op(f"or {word} {high}, {at if word == 'i64' else fn.op(f'zext i64 {at} to {word}')}")

    with fn.loop("%begin", "%end") as each, ev.scope():
        mine = fn.mul(each.index, ev.number(room))
        words = _Words(fn, word, [fn.offset(array, word, mine) for array in arrays])
        item = each.index
        for a in reversed(others):
            size = ev.number(node.shape[a])
            ev.vars[places[a]] = fn.op(f"urem i64 {item}, {size}")
            item = fn.op(f"udiv i64 {item}, {size}")
        if least is None:
            with fn.loop("0", length) as loop, ev.scope():
                words.store(0, loop.index, element(loop.index))
            final = _sorted(words, digits, length, n)
        else:
            final = least.find(ev, words, element, length)
        with fn.loop("0", ev.number(node.shape[axis])) as loop, ev.scope():
            found = words.load(final, loop.index)
            ev.vars[places[axis]] = loop.index
            at = ev.number(ext.ravel(map(ext.of, places), node.shape))
            position = fn.op(f"trunc {word} {found} to i32")
            fn.store("i32", position, fn.offset(ev.pointer(memory[node]), "i32", at), 4)
    space = ext.mul(rows, ext.mul(room, words.bytes))
    grain = max(1, THREAD_SORTED // max(nominal(n), 1))
    return WorkShare(rows, grain, (space, space))


def _sorted(words: _Words, digits: _Digits | None, length: Value, n: Extent) -> Value:
    """The array with the words in order. n: `length` as an extent; a symbol's value decides which way it takes."""
    if digits is None or isinstance(n, int):
        return words.merge(length, n if isinstance(n, int) else None) if digits is None else digits.sort(words, length)
    fn = words.fn
    few = fn.less(length, str(SORT_DIGITS))
    with fn.when(few):
        fn.store("ptr", words.merge(length), digits.sorted, 8)
    with fn.when(fn.op(f"xor i1 {few}, true")):
        fn.store("ptr", digits.sort(words, length), digits.sorted, 8)
    return fn.load("ptr", digits.sorted, 8)


class _Words:
    """The two arrays of words of a sort."""

    def __init__(self, fn: Function, word: str, arrays: list[Value]) -> None:
        self.fn, self.word, self.arrays = fn, word, arrays
        self.bytes = int(word[1:]) // 8

    def load(self, array: Value, at: Value) -> Value:
        return self.fn.load(self.word, self.fn.offset(array, self.word, at), self.bytes)

    def store(self, array: int, at: Value, value: Value) -> None:
        self.fn.store(self.word, value, self.fn.offset(self.arrays[array], self.word, at), self.bytes)

    def merge(self, length: Value, n: int | None = None) -> Value:
        """Merges runs until one is left; gives the array it is in. n: the length if it is constant."""
        fn, word, arrays = self.fn, self.word, self.arrays
        passes, last = _passes(fn, length, n), fn.sub(length, 1)
        with fn.loop("0", passes) as turn:
            width = fn.op(f"shl i64 1, {turn.index}")
            odd = fn.op(f"trunc i64 {turn.index} to i1")
            source = fn.op(f"select i1 {odd}, ptr {arrays[1]}, ptr {arrays[0]}")
            target = fn.op(f"select i1 {odd}, ptr {arrays[0]}, ptr {arrays[1]}")
            pair = fn.op(f"shl i64 {width}, 1")
            pairs = fn.op(f"udiv i64 {fn.add(pair, last)}, {pair}")
            with fn.loop("0", pairs) as run:
                low = fn.mul(run.index, pair)
                middle = fn.minimum(fn.add(low, width), length)
                high = fn.minimum(fn.add(low, pair), length)
                with fn.loop(low, high, 1, [("i64", low), ("i64", middle)]) as out:
                    i, j = out.carried
                    first, second = (self.load(source, fn.minimum(k, last)) for k in (i, j))
                    smaller = fn.op(f"icmp ult {word} {first}, {second}")
                    left = fn.op(f"or i1 {smaller}, {fn.op(f'icmp sge i64 {j}, {high}')}")
                    take = fn.op(f"and i1 {left}, {fn.less(i, middle)}")
                    chosen = fn.op(f"select i1 {take}, {word} {first}, {word} {second}")
                    fn.store(word, chosen, fn.offset(target, word, out.index), self.bytes)
                    one = fn.op(f"zext i1 {take} to i64")
                    out.next = [fn.add(i, one), fn.add(j, fn.sub("1", one))]
        if n is not None:
            return arrays[int(passes) % 2]
        odd = fn.op(f"trunc i64 {passes} to i1")
        return fn.op(f"select i1 {odd}, ptr {arrays[1]}, ptr {arrays[0]}")


class _Digits:
    """A radix sort by keys, whose digits are bytes. Words come in the order of their positions, and those of equal
    digits keep their order, so that positions need no look. A digit that all keys have in common is left out.

    Create it in the entry block, for its stack variables.
    """

    def __init__(self, fn: Function, word: str) -> None:
        self.fn, self.word, self.bits = fn, word, int(word[1:]) // 2
        self._digits = self.bits // 8
        self._counts = fn.op(f"alloca [{256 * self._digits} x i64], align 64")  # by digit and value
        self._places = fn.op("alloca [256 x i64], align 64")  # by value: where the next word with it goes
        self.sorted = fn.op("alloca ptr, align 8")  # for `_sorted`

    def sort(self, words: _Words, length: Value) -> Value:
        """The array with the words in order."""
        fn = self.fn
        self._count(words, length)
        with fn.loop("0", str(self._digits), 1, [("ptr", array) for array in words.arrays]) as digit:
            source, target = digit.carried
            alike = self._place(digit.index, length)
            shift = fn.add(fn.mul(digit.index, 8), str(self.bits))
            with fn.loop("0", fn.op(f"select i1 {alike}, i64 0, i64 {length}")) as each:
                word = words.load(source, each.index)
                slot = fn.offset(self._places, "i64", self._value(word, shift))
                place = fn.load("i64", slot, 8)
                fn.store(self.word, word, fn.offset(target, self.word, place), words.bytes)
                fn.store("i64", fn.add(place, 1), slot, 8)
            digit.next = [
                fn.op(f"select i1 {alike}, ptr {a}, ptr {b}") for a, b in ((source, target), (target, source))
            ]
        return digit.results[0]

    def _count(self, words: _Words, length: Value) -> None:
        """Counts how many words have each value of each digit."""
        fn = self.fn
        with fn.loop("0", str(256 * self._digits)) as loop:
            fn.store("i64", "0", fn.offset(self._counts, "i64", loop.index), 8)
        with fn.loop("0", length) as loop:
            word = words.load(words.arrays[0], loop.index)
            for k in range(self._digits):
                value = self._value(word, str(self.bits + 8 * k))
                slot = fn.offset(self._counts, "i64", fn.add(value, str(256 * k)))
                fn.store("i64", fn.add(fn.load("i64", slot, 8), 1), slot, 8)

    def _place(self, digit: Value, length: Value) -> Value:
        """Says where words with each value of a digit begin; whether all have one."""
        fn, first = self.fn, self.fn.mul(digit, 256)
        with fn.loop("0", "256", 1, [("i64", "0"), ("i1", "false")]) as value:
            total, alike = value.carried
            count = fn.load("i64", fn.offset(self._counts, "i64", fn.add(first, value.index)), 8)
            fn.store("i64", total, fn.offset(self._places, "i64", value.index), 8)
            value.next = [fn.add(total, count), fn.op(f"or i1 {alike}, {fn.op(f'icmp eq i64 {count}, {length}')}")]
        return value.results[1]

    def _value(self, word: Value, shift: Value) -> Value:
        """A digit of a word."""
        fn, wide = self.fn, self.word
        by = shift if wide == "i64" else fn.op(f"zext i64 {shift} to {wide}")
        moved = fn.op(f"lshr {wide} {word}, {by}")
        return fn.op(f"and i64 {moved if wide == 'i64' else fn.op(f'trunc {wide} {moved} to i64')}, 255")


class _Least:
    """Selects the `few` smallest words: words less than the current bound are appended to the candidates; when these
    might overflow the array they are sorted, and the smallest are kept.

    room: words of an array. Create it in the entry block, for its stack variables.
    """

    def __init__(self, fn: Function, word: str, few: int) -> None:
        self.few = few
        self.room = max(2 * few, SORT_WORDS) + SORT_STRETCH
        self._count, self._bound = (fn.op(f"alloca {type_}, align 16") for type_ in ("i64", word))

    def find(self, ev: Evaluator, words: _Words, element: Callable[[Value], Value], length: Value) -> Value:
        """The array with the smallest of `length` elements, sorted."""
        fn, word = words.fn, words.word
        fn.store("i64", "0", self._count, 8)
        fn.store(word, "-1", self._bound, words.bytes)
        with fn.loop("0", length, SORT_STRETCH) as stretch, ev.scope():
            stop = fn.minimum(fn.add(stretch.index, SORT_STRETCH), length)
            bound = fn.load(word, self._bound, words.bytes)
            with fn.loop(stretch.index, stop, 1, [("i64", fn.load("i64", self._count, 8))]) as loop, ev.scope():
                (count,) = loop.carried
                candidate = element(loop.index)
                words.store(0, count, candidate)
                less = fn.op(f"icmp ult {word} {candidate}, {bound}")
                loop.next = [fn.add(count, fn.op(f"zext i1 {less} to i64"))]
            (count,) = loop.results
            fn.store("i64", count, self._count, 8)
            with fn.when(fn.less(str(self.room - SORT_STRETCH), count)):
                self._leave_out(words, count)
        return words.merge(fn.load("i64", self._count, 8))

    def _leave_out(self, words: _Words, count: Value) -> None:
        """Drops all but the smallest words, the last of which becomes the bound."""
        fn = words.fn
        merged = words.merge(count)
        with fn.loop("0", str(self.few)) as loop:
            words.store(0, loop.index, words.load(merged, loop.index))
        fn.store(words.word, words.load(words.arrays[0], str(self.few - 1)), self._bound, words.bytes)
        fn.store("i64", str(self.few), self._count, 8)


def _key(fn: Function, value: Value, dtype: DType, bits: int, descending: bool) -> Value:
    """An unsigned integer with the order of the value."""
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
    """The number of merge passes, ceil(log2(n))."""
    if n is not None:
        return str(max(n - 1, 0).bit_length())
    zeros = fn.call("i64", "llvm.ctlz.i64", ("i64", fn.sub(length, 1)), ("i1", "false"))
    return fn.sub(64, zeros)
