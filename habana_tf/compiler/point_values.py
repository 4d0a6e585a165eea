"""The values of a body: what is computed at one point of a kernel's iteration domain.

16-bit floats are held in float32 registers, and arithmetic keeps float32's precision until a value is stored. Where
the excess precision could be observed (a comparison with a stored value, a sort, TensorFlow's Cast) the value is
rounded first: see `seen`.

Values are compared by identity and shared within a body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from habana_tf.compiler.view_indices import Range
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node

Guard = tuple[Range, ...]
"""A predicate, the conjunction of index ranges: memory may be read only where it holds."""


@dataclass(frozen=True, eq=False)
class PointValue:
    """A scalar at one point of the domain."""

    dtype: DType
    digits: DType | None = field(default=None, kw_only=True)
    """The precision if it is not that of `dtype`: a shorter type's if the value is exact in that, float32's if a 16-bit
    float has not been rounded yet."""

    @property
    def fits(self) -> DType:
        """The shortest known type that represents the value exactly."""
        return self.digits or self.dtype

    @property
    def args(self) -> tuple[PointValue, ...]:
        """Its operands."""
        return ()


@dataclass(frozen=True, eq=False)
class Constant(PointValue):
    """A compile-time number."""

    number: bool | int | float


@dataclass(frozen=True, eq=False)
class Size(PointValue):
    """An extent as a value."""

    extent: Extent


@dataclass(frozen=True, eq=False)
class Position(PointValue):
    """An index as a value."""

    index: Extent


@dataclass(frozen=True, eq=False)
class Load(PointValue):
    """An element of a tensor in memory. as_stored: the offset is that of the tensor's own index, not of a reshape's."""

    node: Node
    offset: Extent
    guard: Guard = ()
    as_stored: bool = True


@dataclass(frozen=True, eq=False)
class Lookup(PointValue):
    """A gathered element: `coords` are its indices along `axes`; 0 where one is out of range.

    offset: the element's offset along the other axes.
    """

    node: Node
    coords: tuple[PointValue, ...]
    axes: tuple[int, ...]
    offset: Extent
    guard: Guard = ()

    @property
    def args(self) -> tuple[PointValue, ...]:
        return self.coords


_OBSERVING = frozenset("eq ne lt le gt ge isinf isfinite floor ceil rint trunc floordiv floormod truncmod".split())
"""Functions that tell a number from its neighbours: of a short float they take what it is once it is stored."""
_CHOOSING = frozenset({"select", "max", "min", "neg", "abs"})
"""Functions whose result has no more digits than their operands."""


@dataclass(frozen=True, eq=False)
class Apply(PointValue):
    """A scalar function of values (see `ir.primitives`), made by `apply`."""

    fn: str
    operands: tuple[PointValue, ...]

    @property
    def args(self) -> tuple[PointValue, ...]:
        return self.operands

    @property
    def data(self) -> DType:
        """The element type of its data operands."""
        return self.operands[1 if self.fn == "select" else 0].dtype

    @property
    def is_free(self) -> bool:
        """Whether it is a cast without code: 16-bit floats and float32 have the same registers."""
        return self.fn == "cast" and self.dtype.accumulator is self.operands[0].dtype.accumulator is DType.F32


def apply(fn: str, dtype: DType, operands: tuple[PointValue, ...]) -> PointValue:
    """A scalar function of values; rounds operands whose excess precision the function could observe."""
    if fn == "stored":
        return seen(operands[0])
    if fn in _OBSERVING:
        return Apply(dtype, fn, tuple(map(seen, operands)))
    made = Apply(dtype, fn, operands)
    if made.is_free:
        short = operands[0].fits
        digits = short if short.is_short and dtype in (short, DType.F32) else DType.F32
    elif fn in _CHOOSING:
        digits = _digits(operands[1:] if fn == "select" else operands)
    else:
        digits = dtype if fn in ("cast", "bitcast") else dtype.accumulator
    return replace(made, digits=digits)


def seen(v: PointValue) -> PointValue:
    """A value rounded to its type, as it would be after a store and a load."""
    return Apply(v.dtype, "stored", (v,)) if v.dtype.is_short and v.fits is not v.dtype else v


def to_store(v: PointValue) -> PointValue:
    """The value to store, without a final rounding to its type, which the store does."""
    dtype = v.dtype
    while dtype.is_short and isinstance(v, Apply) and (v.is_free or v.fn == "stored" and v.dtype is dtype):
        v = v.operands[0]
    return v


def _digits(values: Sequence[PointValue]) -> DType:
    """The precision of a choice among values."""
    dtype = values[0].dtype
    found = {v.fits for v in values if not (isinstance(v, Constant) and v.number in (0, 1, -1))} or {dtype}
    return found.pop() if len(found) == 1 else dtype.accumulator


@dataclass(frozen=True, eq=False)
class Within(PointValue):
    """`inside` where all ranges hold, else `outside` (padding); made by `within`."""

    ranges: Guard
    inside: PointValue
    outside: PointValue

    @property
    def args(self) -> tuple[PointValue, ...]:
        return self.outside, self.inside


def within(ranges: Guard, inside: PointValue, outside: PointValue) -> Within:
    """Selects between two values by index ranges."""
    return Within(inside.dtype, ranges, inside, outside, digits=_digits((inside, outside)))


@dataclass(frozen=True, eq=False)
class Result(PointValue):
    """The core's result at the point, in its accumulator's precision."""
