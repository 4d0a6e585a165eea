"""Loop peeling: finds the interior of an axis, where no guards are needed (an image's row without its border).

    x in 0..39, taps k in 0..2, loaded if 0 <= x + k - 1 < 40:    all three taps exist for x in 1..38

A guard costs more than the arithmetic it protects: a comparison and three instructions for the mask of each tap. So a
loop over such an axis is emitted twice, with guards for its ends and without guards for its interior.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from habana_tf.compiler.body import Body
from habana_tf.compiler.codegen.axes import LoopAxis
from habana_tf.compiler.point_values import Load, Lookup, Within
from habana_tf.compiler.view_indices import Range
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent
from habana_tf.ir.linearity import stride_of


@dataclass(frozen=True)
class Interior:
    """The points `first` to `stop` of an axis, where all ranges of `sure` hold, provided that 0 <= value < end for each
    (value, end) of `others`, which do not depend on the axis."""

    first: int
    stop: int
    sure: frozenset[Range]
    others: tuple[tuple[Extent, int], ...]


def interior(body: Body, axis: LoopAxis, small: Sequence[LoopAxis], vector: LoopAxis) -> Interior | None:
    """The interior of an axis, for all points of the `small` axes; None if it saves no guard."""
    if not isinstance(axis.extent, int):
        return None
    first, stop = 0, axis.extent
    sure: set[Range] = set()
    others: dict[tuple[Extent, int], None] = {}
    for r in set(_ranges(body)):
        ends = _ends(r, axis, small, vector)
        if ends is None or not isinstance(r.stop, int):
            continue
        step = stride_of(r.value, axis.var)
        lowest, highest = (ext.substitute(e, {axis.var: 0}) for e in ends)
        if not step:
            others.update(dict.fromkeys(((lowest, r.stop), (highest, r.stop))))
        elif isinstance(lowest, int) and isinstance(highest, int) and step > 0:
            first = max(first, -(lowest // step))
            stop = min(stop, (r.stop - 1 - highest) // step + 1)
        else:
            continue
        sure.add(r)
    if not sure or 2 * (stop - first) < axis.extent:
        return None
    return Interior(first, stop, frozenset(sure), tuple(sorted(others, key=str)))


def _ranges(body: Body) -> Iterator[Range]:
    for v in body.values:
        match v:
            case Load() | Lookup():
                yield from v.guard
            case Within():
                yield from v.ranges


def _ends(r: Range, axis: LoopAxis, small: Sequence[LoopAxis], vector: LoopAxis) -> tuple[Extent, Extent] | None:
    """The least and the greatest value of a range over the small axes; None if the range always holds, has a step, or
    is not linear in the axes."""
    if r.always_holds or r.step != 1 or isinstance(r.value, int) or stride_of(r.value, vector.var) != 0:
        return None
    if stride_of(r.value, axis.var) is None:
        return None
    least: Extent = r.value
    most: Extent = r.value
    for other in small:
        step = stride_of(r.value, other.var)
        if step is None or not isinstance(other.extent, int):
            return None
        ends = (0, other.extent - 1)
        least = ext.substitute(least, {other.var: ends[step < 0]})
        most = ext.substitute(most, {other.var: ends[step > 0]})
    return least, most
