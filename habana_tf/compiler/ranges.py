"""One recipe for a range of sizes: which numbers of a cluster's signatures are symbols.

A cluster met with batches of 64 and then of 29 will meet others. The signatures it met are compared number by number;
what never changed stays a number, what changed becomes a symbolic extent:

    images [64, 8, 8, 1] -> [29, 8, 8, 1]        images [s0, 8, 8, 1]
    labels [64]          -> [29]                 labels [s0]
    dims = [64, 10]      -> [29, 10]             dims = [s0, 10]

Numbers that changed alike are one symbol, as are a multiple of another, one at a constant distance, and a multiple of
the product of two. That is a guess
from few signatures, and it is checked: `Form.dims` takes a later signature only where every number agrees, and a
cluster that needs two sizes to be equal is refused when it is lowered over different symbols.

Sizes of 0, and negative numbers in values, are never symbols: what they mean is another computation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from . import extent as ext
from .extent import Extent
from .recompilations import Number, Signature, Slot

MOST_SIGNATURES = 16
"""Earlier signatures that are compared with a new one, the latest first."""
MOST_DISTANCE = 8
"""Largest constant distance at which two sizes are taken for one symbol."""


@dataclass(frozen=True)
class Form:
    """A signature with symbols: per slot a number, or an extent. `homes`: per symbol a slot that is just it."""

    slots: tuple[Slot, ...]
    numbers: tuple[Extent | bytes, ...]
    homes: tuple[int, ...]

    def dims(self, met: Signature) -> list[int] | None:
        """The symbols' values for a signature of this form; None if it is not one."""
        if met.slots != self.slots:
            return None
        found: list[int] = []
        for home in self.homes:
            n = met.numbers[home]
            if not isinstance(n, int) or n < 1:
                return None
            found.append(n)
        for mine, n in zip(self.numbers, met.numbers, strict=True):
            if (ext.evaluate(mine, found) if isinstance(mine, ext.Expr) else mine) != n:
                return None
        return found

    def shapes(self, count: int) -> list[tuple[Extent, ...]]:
        """The shapes of the `count` inputs."""
        shapes: list[list[Extent]] = [[] for _ in range(count)]
        for slot, n in zip(self.slots, self.numbers, strict=True):
            if not slot.value and not isinstance(n, bytes):
                shapes[slot.input].append(n)
        return [tuple(s) for s in shapes]

    def values(self, values: Sequence[Any | None]) -> list[Any | None]:
        """The inputs' values: arrays of objects where they hold symbols. values: those of a signature of this form."""
        import numpy as np

        out = list(values)
        for slot, n in zip(self.slots, self.numbers, strict=True):
            if slot.value and isinstance(n, ext.Expr):
                array = out[slot.input]
                assert array is not None and slot.axis is not None
                if array.dtype != object:
                    array = out[slot.input] = array.astype(object)
                array[np.unravel_index(slot.axis, array.shape)] = n
        return out


def generalize(met: Sequence[Signature]) -> Form | None:
    """The form of signatures of the same slots; None where what changed cannot be a symbol."""
    columns = list(zip(*(m.numbers for m in met), strict=True))
    sizes: list[tuple[int, ...]] = []
    for column in columns:
        if len(set(column)) == 1:
            continue
        numbers = tuple(n for n in column if isinstance(n, int) and n > 0)
        if len(numbers) != len(column):
            return None
        if numbers not in sizes:
            sizes.append(numbers)
    known: dict[tuple[Number, ...], Extent] = {}
    homes: list[int] = []
    for column_ in sorted(sizes, key=lambda c: (min(c), sizes.index(c))):
        related = _related(column_, homes, columns)
        if related is None:
            related = ext.sym(len(homes))
            homes.append(columns.index(column_))
        known[column_] = related
    numbers_ = tuple(known.get(column, column[0]) for column in columns)
    return Form(met[0].slots, numbers_, tuple(homes)) if homes else None


def _related(column: tuple[int, ...], homes: list[int], columns: Sequence[tuple[Number, ...]]) -> Extent | None:
    """A size as an expression of the symbols there are; None if it is none."""
    symbols = [(ext.sym(k), [n for n in columns[home] if isinstance(n, int)]) for k, home in enumerate(homes)]
    products = [
        (ext.mul(a, b), [n * m for n, m in zip(x, y, strict=True)]) for (a, x), (b, y) in combinations(symbols, 2)
    ]  # fmt: skip
    for e, numbers in (*symbols, *products):
        if not any(n % m for n, m in zip(column, numbers, strict=True)):
            factors = {n // m for n, m in zip(column, numbers, strict=True)}
            if len(factors) == 1:
                return ext.mul(e, factors.pop())
    for e, numbers in symbols:
        distances = {n - m for n, m in zip(column, numbers, strict=True)}
        if len(distances) == 1 and (distance := distances.pop()) <= MOST_DISTANCE:
            return ext.add(e, distance)
    return None
