"""The memory plan: assigns workspace offsets to buffers by their live ranges.

Buffers whose live ranges (in calls) do not overlap share memory. Sizes are rounded to 64 bytes, the alignment that
kernels rely on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 64


@dataclass(frozen=True)
class Lifetime:
    """A buffer of `nbytes` that is live from call `first` to call `last`, inclusive."""

    nbytes: int
    first: int
    last: int


@dataclass(frozen=True)
class MemoryLayout:
    """offsets: one per lifetime, in bytes. total: size of the workspace. peak: most live bytes."""

    offsets: tuple[int, ...]
    total: int
    peak: int


def place(values: Sequence[Lifetime]) -> MemoryLayout:
    """Best-fit allocation from a free list, in order of first use."""
    offsets = [0] * len(values)
    free: list[tuple[int, int]] = []  # (offset, size), by offset, never adjacent
    total = alive = peak = 0
    ends: dict[int, list[int]] = {}
    for i in sorted(range(len(values)), key=lambda i: (values[i].first, -values[i].nbytes, i)):
        value = values[i]
        size = _round(value.nbytes)
        for call in [c for c in ends if c < value.first]:
            for done in ends.pop(call):
                alive -= _round(values[done].nbytes)
                free = _give_back(free, offsets[done], _round(values[done].nbytes))
        fits = [(s, o) for o, s in free if s >= size]
        if fits:
            space, offset = min(fits)
            free.remove((offset, space))
            if space > size:
                free = _give_back(free, offset + size, space - size)
        elif free and free[-1][0] + free[-1][1] == total:
            offset = free.pop()[0]
            total = offset + size
        else:
            offset, total = total, total + size
        offsets[i] = offset
        alive += size
        peak = max(peak, alive)
        ends.setdefault(value.last, []).append(i)
    return MemoryLayout(tuple(offsets), total, peak)


def _round(n: int) -> int:
    return -(-n // ALIGNMENT) * ALIGNMENT


def _give_back(free: list[tuple[int, int]], offset: int, size: int) -> list[tuple[int, int]]:
    """The free list with one more range, adjacent ones merged."""
    if size == 0:
        return free
    out: list[tuple[int, int]] = []
    for o, s in sorted([*free, (offset, size)]):
        if out and out[-1][0] + out[-1][1] == o:
            out[-1] = (out[-1][0], out[-1][1] + s)
        else:
            out.append((o, s))
    return out
