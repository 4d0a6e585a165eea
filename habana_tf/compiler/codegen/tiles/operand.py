"""How the elements of a packed operand lie in memory: strides, limits and groups of rows, for `fill`."""

from __future__ import annotations

from dataclasses import dataclass

from habana_tf.compiler.codegen.emit import Value


@dataclass(frozen=True)
class Limit:
    """Element (i across, j along) exists only if 0 <= value + across * i + along[-1] * j + ... < size."""

    value: Value
    across: int
    along: tuple[int, ...]
    size: Value


@dataclass(frozen=True)
class Across:
    """The direction across. step: stride in elements; count: of elements, between `least` and `most`."""

    step: int
    count: Value
    least: int
    most: int


@dataclass(frozen=True)
class Groups:
    """Neighbouring row tiles or panels, which have separate copies but are packed together, step by step, because a
    step of all of them is contiguous: fewer pages of memory are touched at a time.

    The copy of group `first` + i (of `count`) is at `apart` * i bytes. Groups before `large` have `most` elements,
    others `rest`; groups before `whole` need no masks.
    """

    first: Value
    count: Value
    large: Value
    whole: Value
    most: int
    rest: int
    apart: int


@dataclass(frozen=True)
class Along:
    """A label of the sum. step: stride in elements; trip: its extent, a multiple of `multiple`; line: stride in bytes
    in the copy (of the last label: per unit, or per register of units)."""

    step: int
    trip: int | Value
    line: int
    multiple: int = 1
