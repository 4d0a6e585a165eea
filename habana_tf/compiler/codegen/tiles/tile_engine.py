"""Register tiles with AMX, for bf16 products where a is contiguous along k.

An AMX register holds up to 16 rows of 64 bytes. Four of them are accumulators, in one of two shapes:

    two groups of rows x two vectors of columns        one group of rows x up to four vectors

A group is up to 16 rows at equal distances in a. A step multiplies `depth` pairs of neighbours along k: it loads a
register of a per group (rows x pairs) and one of packed b per vector (pairs x 16 columns), and does a tile product per
accumulator. The sums are stored to memory for the epilogue.

A tile product sums its `depth` pairs before it adds them to the accumulator. More than SUM_STEPS steps are summed in
blocks in memory (see `blocked_sums`).

The process needs permission to use AMX (`hardware.cpu.host` requests it).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise

from habana_tf.compiler.codegen.emit import EmittedLoop, Function, Value
from habana_tf.compiler.codegen.tiles.accumulate import KLoop
from habana_tf.compiler.codegen.turns import block_turns, in_blocks, repeat
from habana_tf.compiler.product_costs import SUM_STEPS

SUMS, A, B = 0, 4, 6
"""First register of the sums, of a, and of b (two, used in turn)."""
REGISTER = 64
"""Bytes of a register's row: 16 sums, 16 pairs."""
VECTOR = "<16 x float>"
"""A register's row of sums."""


@dataclass(frozen=True)
class TileRows:
    """Rows of a register: byte offset of the first from the tile's start, number of rows, bytes between them."""

    first: int
    rows: int
    step: int


def groups(rows: Sequence[int]) -> list[TileRows]:
    """The rows of a tile (byte offsets in a) as one or two groups, else a ValueError."""

    def group(part: Sequence[int]) -> TileRows:
        step = part[1] - part[0] if len(part) > 1 else 0
        if len(part) > 16 or any(y - x != step for x, y in pairwise(part)):
            raise ValueError(f"rows at {part} do not fit a tile register")
        return TileRows(part[0], len(part), step)

    try:
        return [group(rows)]
    except ValueError:
        half = (len(rows) + 1) // 2
        return [group(rows[:half]), group(rows[half:])]


def configuration(parts: Sequence[TileRows], depth: int) -> bytes:
    """The 64 bytes of LDTILECFG (palette 1): bytes per row and rows of each register, for any number of vectors."""
    widths, rows = [0] * 16, [0] * 16
    for g, part in enumerate(parts):
        for register in range(A // len(parts) * g, A // len(parts) * (g + 1)):
            widths[SUMS + register], rows[SUMS + register] = REGISTER, part.rows
        widths[A + g], rows[A + g] = depth * 4, part.rows
    for register in (B, B + 1):
        widths[register], rows[register] = REGISTER, depth
    return bytes([1] + [0] * 15) + b"".join(x.to_bytes(2, "little") for x in widths) + bytes(rows)


class Configurations:
    """The register configurations of a kernel; changed only when needed, since that costs hundreds of cycles."""

    def __init__(self, fn: Function, forms: Sequence[bytes]) -> None:
        """Call it at the function's entry."""
        self.fn, self.forms = fn, list(dict.fromkeys(forms))
        places = [fn.op("alloca [64 x i8], align 64") for _ in self.forms]
        self.current = fn.op("alloca i64, align 8")
        for place, form in zip(places, self.forms, strict=True):
            for i in range(0, 64, 8):
                word = int.from_bytes(form[i : i + 8], "little", signed=True)
                fn.store("i64", str(word), fn.ptradd(place, i), 8)
        self.places = places

    def start(self) -> None:
        """Before the first work item."""
        self._set(0)

    def use(self, form: bytes) -> None:
        if len(self.forms) == 1:
            return
        wanted = self.forms.index(form)
        now = self.fn.load("i64", self.current, 8)
        with self.fn.when(self.fn.op(f"icmp ne i64 {now}, {wanted}")):
            self._set(wanted)

    def _set(self, index: int) -> None:
        self.fn.call("void", "llvm.x86.ldtilecfg", ("ptr", self.places[index]))
        self.fn.store("i64", str(index), self.current, 8)


class TileProducts:
    """Emits the products of a tile. depth: pairs per step; vectors: of 16 columns; width: words per pair in packed b.
    spare: memory of a tile's size for the partial sums of a block; without it there are no blocks."""

    def __init__(
        self, fn: Function, parts: Sequence[TileRows], vectors: int, depth: int, width: int, spare: Value = ""
    ) -> None:
        if len(parts) * vectors > A:
            raise ValueError(f"{len(parts)} groups of rows and {vectors} vectors are more than four tile registers")
        self.fn, self.parts, self.vectors, self.depth, self.width = fn, parts, vectors, depth, width
        self.spare, self.target = spare, ""

    def run(self, loops: Sequence[KLoop], a: Value, b: Value, target: Value, add: bool = False) -> None:
        """Stores the sums over `loops` (steps of `depth` pairs in the last one) to `target`, in rows of `vectors` * 16.
        add: add them to the target."""
        self.target = target
        blocks = self.spare and math.prod(x.turns for x in loops) > SUM_STEPS
        if blocks:
            with self._each() as i:
                self.fn.store(VECTOR, "zeroinitializer", self.fn.ptradd(target, i.index), 16)
        elif add:
            self._move("tileloadd64", target)
        else:
            self._clear()
        self._nest(list(loops), a, b)
        if not blocks:
            self._move("tilestored64", target)

    def _clear(self) -> None:
        for g in range(len(self.parts)):
            for v in range(self.vectors):
                self._do("tilezero", ("i8", self._sums(g, v)))

    def _each(self) -> AbstractContextManager[EmittedLoop]:
        """A loop over the bytes of a tile's sums, by vectors."""
        rows = sum(part.rows for part in self.parts)
        return self.fn.loop("0", str(rows * self.vectors * REGISTER), REGISTER)

    def _move(self, what: str, target: Value) -> None:
        """Loads or stores all sums."""
        row, line = 0, self.vectors * REGISTER
        for g, part in enumerate(self.parts):
            for v in range(self.vectors):
                place = self.fn.ptradd(target, row * line + v * REGISTER)
                self._do(what, ("i8", self._sums(g, v)), ("ptr", place), ("i64", line))
            row += part.rows

    def _nest(self, loops: list[KLoop], a: Value, b: Value) -> None:
        if not loops:
            self._step(a, b)
            return
        loop, inner = loops[0], loops[1:]

        def turns(count: int | Value, pointers: list[Value]) -> list[Value]:
            with repeat(self.fn, count, [("ptr", x) for x in pointers]) as t:
                pa, pb = t.carried
                self._nest(inner, pa, pb)
                t.next = [self.fn.ptradd(pa, loop.a), self.fn.ptradd(pb, loop.b)]
            return t.next

        def block(count: int | Value, pointers: list[Value]) -> list[Value]:
            self._clear()
            after = turns(count, pointers)
            self._move("tilestored64", self.spare)
            with self._each() as i:
                total, part = (self.fn.ptradd(x, i.index) for x in (self.target, self.spare))
                both = (self.fn.load(VECTOR, x, 16) for x in (total, part))
                self.fn.store(VECTOR, self.fn.op(f"fadd {VECTOR} {', '.join(both)}"), total, 16)
            return after

        size = block_turns(loop.turns, math.prod(max(x.turns, 1) for x in inner)) if self.spare else 0
        if size:
            in_blocks(self.fn, loop.trip, size, [("ptr", a), ("ptr", b)], block)
        else:
            turns(loop.trip, [a, b])

    def _step(self, a: Value, b: Value) -> None:
        for g, part in enumerate(self.parts):
            self._do("tileloadd64", ("i8", A + g), ("ptr", self.fn.ptradd(a, part.first)), ("i64", part.step))
        for v in range(self.vectors):
            register = B + v % 2
            self._do("tileloadd64", ("i8", register), ("ptr", self.fn.ptradd(b, v * REGISTER)), ("i64", self.width * 4))
            for g in range(len(self.parts)):
                self._do("tdpbf16ps", ("i8", self._sums(g, v)), ("i8", A + g), ("i8", register))

    def _sums(self, g: int, v: int) -> int:
        return SUMS + A // len(self.parts) * g + v

    def _do(self, name: str, *args: tuple[str, Value | int]) -> None:
        self.fn.call("void", f"llvm.x86.{name}", *((t, str(x)) for t, x in args))


def release(fn: Function) -> None:
    """Releases the tile registers at the end of a kernel."""
    fn.call("void", "llvm.x86.tilerelease")
