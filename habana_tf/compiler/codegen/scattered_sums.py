"""Blocked summation of a SCATTER: partial sums per block of updates, to limit rounding errors (see `blocked_sums`).

    part = 0
    for each block of the updates:   for each update:   part[index] += update
                                     for each index:    result[index] += part[index],   part[index] = 0

Each work item has partial sums of its indices and columns: on its stack, or in memory if they are large and there are
many updates per index. A block has SUMMED_UPDATES updates, or SUMMED_PASSES per index if that is more. There are no
blocks if sizes are symbolic and the partial sums exceed the stack. Blocks depend on sizes only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from habana_tf.compiler.codegen.emit import Function, Value
from habana_tf.compiler.codegen.evaluator import Evaluator
from habana_tf.compiler.costs import SUMMED_BLOCKS, SUMMED_NUMBERS, SUMMED_PASSES, SUMMED_UPDATES
from habana_tf.ir.extent import Extent


class ScatterTargets(NamedTuple):
    """The target elements of a work item. start: offset of index 0 in the result; low, size: its range of the first
    indexed axis, one of `parts`; others: extents of the other indexed axes; steps: their strides in the result.
    columns: number of columns from `first` on; along: emits a body for each vector of them."""

    start: Value
    low: Value
    size: Value
    parts: int
    others: Sequence[Value]
    steps: Sequence[Value]
    first: Value
    columns: int
    along: Callable[[Callable[[], None]], None]


def part_size(updates: Extent, places: Extent, columns: int) -> int:
    """The most elements of an item's partial sums, given the numbers of updates and of indices; 0 for no blocks."""
    if isinstance(updates, int) and updates <= SUMMED_UPDATES:
        return 0
    if not isinstance(places, int):
        return SUMMED_NUMBERS
    size = places * columns
    return size if size <= SUMMED_NUMBERS or (isinstance(updates, int) and updates >= SUMMED_PASSES * places) else 0


class ScatteredSums:
    """Emits the blocks of a kernel. Create it at the function's entry. size: see `part_size`; temp: the buffer number
    of large partial sums."""

    def __init__(self, fn: Function, ev: Evaluator, buffer: int, size: int, temp: int) -> None:
        self.fn, self.ev, self.buffer, self.size = fn, ev, buffer, size
        self.nbytes = (-(-size // 16) + 1) * 64  # and room behind it for a vector
        self.large = size > SUMMED_NUMBERS
        self.part = fn.buffer(temp) if self.large else fn.op(f"alloca [{self.nbytes} x i8], align 64")
        self.result = ev.pointer(buffer)
        self.blocks: Value = "false"

    def run(
        self, item: Value, places: ScatterTargets, updates: Sequence[Value],
        add: Callable[[Value, Sequence[Value], Value, Value], None],
    ) -> None:  # fmt: skip
        """Emits all updates of a work item. updates: extents of their axes. add: emits those in a range of the first
        axis, given the offset of index 0 and the strides in the target."""
        fn, self.places = self.fn, places
        if self.large:
            self.part = fn.ptradd(self.part, fn.mul(item, self.nbytes))
        first, inner = updates[0], self._product(updates[1:])
        count = self._product([places.size, *places.others])
        room = fn.mul(count, places.columns)
        wanted = self._most(str(SUMMED_UPDATES), fn.mul(count, SUMMED_PASSES * places.parts))
        wanted = self._most(wanted, fn.div(fn.mul(first, inner), SUMMED_BLOCKS))
        turns = self._most(fn.div(wanted, self._most(inner, "1")), "1")
        several = fn.op(f"icmp sgt i64 {first}, {turns}")
        self.blocks = fn.op(f"and i1 {several}, {fn.op(f'icmp sle i64 {room}, {self.size}')}")
        turns = self._either(turns, self._most(first, "1"))
        with fn.loop("0", self._either(room, "0"), self.ev.lanes) as i:
            fn.store(self.vector, "zeroinitializer", fn.offset(self.part, "float", i.index), 4)
        own = self._own_steps()
        origin = self._either(self._own_start(own), places.start)
        steps = [self._either(a, b) for a, b in zip(own, places.steps, strict=True)]
        number = fn.div(fn.add(first, fn.sub(turns, "1")), turns)
        with fn.loop("0", number) as block, self.ev.scope():
            start = fn.mul(block.index, turns)
            self.ev.pointers[self.buffer] = fn.op(f"select i1 {self.blocks}, ptr {self.part}, ptr {self.result}")
            add(origin, steps, start, fn.minimum(fn.add(start, turns), first))
            self.ev.pointers[self.buffer] = self.result
            with fn.when(self.blocks), self.ev.scope():
                self._keep()

    def _own_steps(self) -> list[Value]:
        """The strides of indices in the partial sums."""
        steps = [str(self.places.columns)]
        for n in reversed(self.places.others):
            steps.insert(0, self.fn.mul(steps[0], n))
        return steps

    def _own_start(self, steps: Sequence[Value]) -> Value:
        """The offset of index 0 in the partial sums, whose columns are numbered as in the result."""
        fn, places = self.fn, self.places
        return fn.sub("0", fn.add(fn.mul(places.low, steps[0]), places.first))

    def _keep(self) -> None:
        """Adds the partial sums to the result and clears them."""
        fn, places, own = self.fn, self.places, self._own_steps()

        def places_from(axis: int, start: Value, at_part: Value) -> None:
            if axis == len(own):
                places.along(lambda: self._add(start, at_part))
                return
            low = "0" if axis else places.low
            count = places.others[axis - 1] if axis else places.size
            with fn.loop(low, fn.add(low, count)) as i, self.ev.scope():
                moved = (fn.mul(i.index, x[axis]) for x in (places.steps, own))
                places_from(axis + 1, *(fn.add(x, y) for x, y in zip((start, at_part), moved, strict=True)))

        places_from(0, places.start, self._own_start(own))

    def _add(self, start: Value, own: Value) -> None:
        fn, ev, mask = self.fn, self.ev, self.ev.mask()
        column = ev.vars[ev.vector] if ev.vector else "0"
        part, result = (
            fn.offset(memory, "float", fn.add(place, column))
            for memory, place in ((self.part, own), (self.result, start))
        )
        parts = (fn.masked_load("float", ev.lanes, x, mask) for x in (result, part))
        fn.masked_store("float", ev.lanes, fn.op(f"fadd {self.vector} {', '.join(parts)}"), result, mask)
        fn.masked_store("float", ev.lanes, "zeroinitializer", part, mask)

    @property
    def vector(self) -> str:
        return f"<{self.ev.lanes} x float>"

    def _either(self, blocks: Value, none: Value) -> Value:
        """Selects by whether there are blocks."""
        return self.fn.op(f"select i1 {self.blocks}, i64 {blocks}, i64 {none}")

    def _most(self, a: Value, b: Value) -> Value:
        return self.fn.op(f"select i1 {self.fn.less(a, b)}, i64 {b}, i64 {a}")

    def _product(self, numbers: Sequence[Value]) -> Value:
        out: Value = "1"
        for n in numbers:
            out = self.fn.mul(out, n)
        return out
