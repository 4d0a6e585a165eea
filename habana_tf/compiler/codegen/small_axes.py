"""Unrolling of short axes, such as a window's taps.

Unrolled reduced axes have constant addresses and conditions. Unrolled kept axes have the sums of all their points in
registers (register blocking), so that loads which the points share are made once: the gradient of a filter reads image
and result once for its nine sums.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from habana_tf.compiler.body import Body
from habana_tf.compiler.codegen.axes import LoopAxis
from habana_tf.compiler.costs import WRITTEN_OUT_POINTS
from habana_tf.compiler.point_values import Load, Lookup, PointValue, Position, Within
from habana_tf.ir.extent import Extent, Var
from habana_tf.ir.linearity import mentions


def numel(axes: Sequence[LoopAxis]) -> int:
    """The number of points of axes; more than WRITTEN_OUT_POINTS if one is symbolic."""
    return math.prod(a.extent if isinstance(a.extent, int) else WRITTEN_OUT_POINTS + 1 for a in axes)


def places(axes: Sequence[LoopAxis]) -> Iterator[dict[Var, str]]:
    """The points of axes as values of their variables, the last axis varying fastest."""
    sizes = [range(a.extent) for a in axes if isinstance(a.extent, int)]
    for point in itertools.product(*sizes):
        yield {a.var: str(k) for a, k in zip(axes, point, strict=True)}


def beside(body: Body, outer: Sequence[LoopAxis], inner: Sequence[LoopAxis]) -> list[LoopAxis]:
    """The kept axes of a reduction to unroll, with all sums in registers; none if their points share no loads within
    the reduced axes `inner`."""
    chosen: list[LoopAxis] = []
    for axis in reversed(outer):
        if numel([*chosen, axis]) <= WRITTEN_OUT_POINTS:
            chosen.insert(0, axis)
    apart, summed = dependent(body, chosen), dependent(body, inner)
    loads = [v for v in body.values if isinstance(v, Load)]
    return chosen if len(loads) > 1 and any(v in summed and v not in apart for v in loads) else []


def dependent(body: Body, axes: Sequence[LoopAxis]) -> set[PointValue]:
    """The values of a body that depend on the axes."""
    variables = [a.var for a in axes]
    found: set[PointValue] = set()
    for v in body.values:
        expressions: list[Extent] = []
        match v:
            case Load() | Lookup():
                expressions = [v.offset, *(e for r in v.guard for e in (r.value, r.stop))]
            case Position():
                expressions = [v.index]
            case Within():
                expressions = [e for r in v.ranges for e in (r.value, r.stop)]
        atoms = [atom for e in expressions if not isinstance(e, int) for atom, _ in e.terms]
        if any(a in found for a in v.args) or any(mentions(atom, x) for atom in atoms for x in variables):
            found.add(v)
    return found
