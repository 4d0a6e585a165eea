"""Generalizes the signatures of a cluster to symbolic sizes, so that one recipe serves a range of them.

A cluster met with batches of 64 and then of 29 will meet others. The signatures it met are compared number by number;
what never changed stays a number, what changed becomes a symbolic extent:

    images [64, 8, 8, 1] -> [29, 8, 8, 1]        images [s0, 8, 8, 1]
    labels [64]          -> [29]                 labels [s0]
    dims = [64, 10]      -> [29, 10]             dims = [s0, 10]

Numbers that changed alike are one symbol, as are a multiple of another, one at a constant distance, a multiple of that,
and a multiple of the product of two. That is a guess from few signatures, and it is checked: `SizeRange.dims` takes a
later signature only where every number agrees, and a cluster that needs two sizes to be equal is refused when it is
lowered over different symbols. Then other guesses are tried: that a size is what a stride leaves of another,
(s0 + k) // stride (see `guesses`).

Sizes of 0, and negative numbers in values, are never symbols: what they mean is another computation. Nor are the sizes
of variables: where they differ there are two models of the same ops, a layer of 8 units and one of 9, and a range over
both would be slower code for each, where it can be compiled at all. Signatures are compared with those that have the
same (see `kin`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from habana_tf.cluster.signature import Number, Signature, Slot
from habana_tf.ir import extent as ext
from habana_tf.ir.conditions import hold
from habana_tf.ir.extent import Extent

MOST_SIGNATURES = 16
"""Earlier signatures that are compared with a new one, the latest first."""
MOST_DISTANCE = 8
"""Largest constant distance at which two sizes are taken for one symbol."""
MOST_GUESSES = 6
"""Guesses of how sizes are related that are tried before a cluster gets a recipe for one shape."""
STRIDES = (2, 3, 4, 5, 6, 8, 16, 32)
"""Of convolutions and poolings, and the products of several of them."""


@dataclass(frozen=True)
class SizeRange:
    """A signature with symbols: per slot a number, or an extent. `homes`: per symbol a slot that is just it.

    `conditions` are at least 0 for all sizes of the range: what its recipe takes for granted (see `ir.conditions`).
    walked: products that have no code of their own for such sizes walk them (see `compiler.symbolic_products`).
    """

    slots: tuple[Slot, ...]
    numbers: tuple[Extent | bytes, ...]
    homes: tuple[int, ...]
    conditions: tuple[ext.Expr, ...] = ()
    walked: bool = False

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
        return found if hold(self.conditions, found) else None

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


def kin(met: Signature, earlier: Sequence[Signature], variables: Collection[int] = ()) -> list[Signature]:
    """The earlier signatures that may be of one range with this one: numbers that cannot be symbols are the same.

    variables: the inputs that are values of variables.
    """
    own = [slot.input in variables for slot in met.slots]

    def fixed(s: Signature) -> list[Number | None]:
        pairs = zip(s.numbers, own, strict=True)
        return [n if variable or isinstance(n, bytes) or n <= 0 else None for n, variable in pairs]

    mine = fixed(met)
    return [s for s in earlier if s.slots == met.slots and fixed(s) == mine]


def guesses(met: Sequence[Signature]) -> list[SizeRange]:
    """The forms to try one after the other: `generalize`'s, then that in which sizes are sums of others, as of what is
    padded, then those in which they are strided ones of others."""
    form = generalize(met)
    if form is None or len(form.homes) < 2:
        return [form] if form is not None else []
    columns = [[n for n in (m.numbers[home] for m in met) if isinstance(n, int)] for home in form.homes]
    order = sorted(range(len(columns)), key=lambda k: columns[k], reverse=True)
    ways: dict[int, list[Extent]] = {}
    kept: list[int] = []
    for at, k in enumerate(order):  # of the next larger size first: what is pooled was convolved before
        found = [e for j in reversed(order[:at]) for e in _strided(ways[j][0], columns[j], columns[k])]
        if not found:
            kept.append(k)
        ways[k] = found or [ext.sym(k)]
    summed = generalize(met, sums=True)
    out = [form] if summed is None or summed == form else [form, summed]
    for turn in range(min(MOST_GUESSES, max(map(len, ways.values())))):
        chosen: dict[ext.Atom, Extent] = {ext.Sym(k): w[min(turn, len(w) - 1)] for k, w in ways.items()}
        symbols: dict[ext.Atom, Extent] = {ext.Sym(k): ext.sym(n) for n, k in enumerate(sorted(kept))}
        numbers = tuple(
            n if isinstance(n, bytes) else ext.substitute(ext.substitute(n, chosen), symbols) for n in form.numbers
        )
        guess = replace(form, numbers=numbers, homes=tuple(form.homes[k] for k in sorted(kept)))
        if guess not in out:
            out.append(guess)
    return out


def _strided(symbol: Extent, sizes: Sequence[int], column: Sequence[int]) -> list[Extent]:
    """(symbol + k) // stride for each stride and the smallest k that give `column`; what SAME padding leaves first."""
    out: list[Extent] = []
    for s in STRIDES:
        fitting = [
            k for k in range(1 - 4 * s, s + 1) if all((n + k) // s == m for n, m in zip(sizes, column, strict=True))
        ]
        fitting.sort(key=lambda k: (k != s - 1, k != 0, abs(k)))
        out.extend(ext.div(ext.add(symbol, k), s) for k in fitting)
    return out


def generalize(met: Sequence[Signature], sums: bool = False) -> SizeRange | None:
    """The form of signatures of the same slots; None where what changed cannot be a symbol. sums: sizes may be sums of
    symbols, and what they leave of a number."""
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
            related = _multiple(column_, known)
        if related is None and sums:
            related = _sum(column_, homes, columns)
        if related is None:
            related = ext.sym(len(homes))
            homes.append(columns.index(column_))
        known[column_] = related
    numbers_ = tuple(known.get(column, column[0]) for column in columns)
    return SizeRange(met[0].slots, numbers_, tuple(homes)) if homes else None


def _symbols(homes: list[int], columns: Sequence[tuple[Number, ...]]) -> list[tuple[Extent, list[int]]]:
    """The symbols there are, each with its numbers."""
    return [(ext.sym(k), [n for n in columns[home] if isinstance(n, int)]) for k, home in enumerate(homes)]


def _sum(column: tuple[int, ...], homes: list[int], columns: Sequence[tuple[Number, ...]]) -> Extent | None:
    """A size as a number more than a sum of few symbols, or a number less one; None if it is neither."""
    symbols = _symbols(homes, columns)
    ways = [(ext.mul(e, times), [times * n for n in numbers]) for times in (1, -1, 2) for e, numbers in symbols]
    for count in (2, 3):
        for several in combinations(symbols, count):
            total: Extent = 0
            for e, _ in several:
                total = ext.add(total, e)
            ways.append((total, [sum(each) for each in zip(*(numbers for _, numbers in several), strict=True)]))
    for e, numbers in ways:
        distances = {n - m for n, m in zip(column, numbers, strict=True)}
        if len(distances) == 1:
            return ext.add(e, distances.pop())
    return None


def _multiple(column: tuple[int, ...], known: Mapping[tuple[Number, ...], Extent]) -> Extent | None:
    """A size as a multiple of one that is known already: rows of all steps, 3 * (s0 + 1), where s0 is a step less."""
    for numbers, e in known.items():
        if (factor := _factor(column, [m for m in numbers if isinstance(m, int)])) is not None:
            return ext.mul(e, factor)
    return None


def _factor(column: Sequence[int], numbers: Sequence[int]) -> int | None:
    """The number by which each of `numbers` is multiplied in `column`; None if there is none."""
    factors = {divmod(n, m) for n, m in zip(column, numbers, strict=True)}
    (factor, rest), *others = factors
    return None if others or rest else factor


def _related(column: tuple[int, ...], homes: list[int], columns: Sequence[tuple[Number, ...]]) -> Extent | None:
    """A size as an expression of the symbols there are; None if it is none."""
    symbols = _symbols(homes, columns)
    products = [
        (ext.mul(a, b), [n * m for n, m in zip(x, y, strict=True)]) for (a, x), (b, y) in combinations(symbols, 2)
    ]  # fmt: skip
    for e, numbers in (*symbols, *products):
        if (factor := _factor(column, numbers)) is not None:
            return ext.mul(e, factor)
    for e, numbers in symbols:
        distances = {n - m for n, m in zip(column, numbers, strict=True)}
        if len(distances) == 1 and (distance := distances.pop()) <= MOST_DISTANCE:
            return ext.add(e, distance)
    return None
