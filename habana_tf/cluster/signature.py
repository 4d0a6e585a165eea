"""The signature of a launch: the sizes of a cluster's inputs and the values that fix shapes, slot by slot.

A *slot* is one axis of one input, or one number of an input whose value fixes a shape.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MOST_NUMBERS = 64
"""Numbers of an input's value that are compared one by one; a longer value is one slot."""

Number = int | bytes


@dataclass(frozen=True)
class Slot:
    """One number of a signature: size of `axis` of an input, or with `value` the number at `axis` of its value.

    axis None: the value as a whole.
    """

    input: int
    axis: int | None
    value: bool = False


@dataclass(frozen=True)
class Signature:
    """Numbers slot by slot. Signatures are comparable when their slots are the same (the ranks, above all)."""

    slots: tuple[Slot, ...]
    numbers: tuple[Number, ...]

    @classmethod
    def of(cls, shapes: Sequence[Sequence[int]], values: Sequence[Any | None]) -> Signature:
        """values: NumPy arrays of the inputs that fix shapes, None for the others."""
        form: list[tuple[int, int | None]] = []
        numbers: list[Number] = []
        for shape, value in zip(shapes, values, strict=True):
            numbers.extend(shape)
            if value is None:
                form.append((len(shape), 0))
            elif value.dtype.kind == "i" and value.size <= MOST_NUMBERS:
                form.append((len(shape), value.size))
                numbers.extend(value.reshape(-1).tolist())
            else:
                form.append((len(shape), None))
                numbers.append(value.tobytes())
        return cls(_slots(tuple(form)), tuple(numbers))


@functools.lru_cache(maxsize=256)
def _slots(form: tuple[tuple[int, int | None], ...]) -> tuple[Slot, ...]:
    """The slots of inputs of these ranks, each with so many numbers of its value, or None for a value as a whole: one
    object for all signatures that are compared with each other."""
    slots: list[Slot] = []
    for k, (rank, count) in enumerate(form):
        slots.extend(Slot(k, axis) for axis in range(rank))
        slots.extend([Slot(k, None, True)] if count is None else [Slot(k, at, True) for at in range(count)])
    return tuple(slots)
