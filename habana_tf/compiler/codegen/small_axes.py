"""Axes of a few points, as those of a window's taps, that are written out point by point instead of looped over.

Reduced ones in a row: addresses and conditions are constants then, and sums stay where they are. Kept ones beside each
other, each point with sums of its own in registers, where something is read that all of them share: the gradient of
a filter reads image and result once for its nine sums, not nine times.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from habana_tf.compiler.body import Body, Load, Lookup, Position, Value, Within
from habana_tf.compiler.codegen.axes import Axis
from habana_tf.compiler.costs import WRITTEN_OUT_POINTS
from habana_tf.ir.extent import Extent, Var
from habana_tf.ir.linearity import mentions


def numel(axes: Sequence[Axis]) -> int:
    """How many points axes have; more than are ever written out where one has a size that is not a number."""
    return math.prod(a.extent if isinstance(a.extent, int) else WRITTEN_OUT_POINTS + 1 for a in axes)


def places(axes: Sequence[Axis]) -> Iterator[dict[Var, str]]:
    """The points of axes, as the values of their variables, last axis fastest."""
    sizes = [range(a.extent) for a in axes if isinstance(a.extent, int)]
    for point in itertools.product(*sizes):
        yield {a.var: str(k) for a, k in zip(axes, point, strict=True)}


def beside(body: Body, outer: Sequence[Axis], inner: Sequence[Axis]) -> list[Axis]:
    """Which of a reduction's kept axes have all their sums in registers: none, if nothing is read for all of them at
    each point of its other axes, `inner`."""
    chosen: list[Axis] = []
    for axis in reversed(outer):
        if numel([*chosen, axis]) <= WRITTEN_OUT_POINTS:
            chosen.insert(0, axis)
    apart, summed = dependent(body, chosen), dependent(body, inner)
    loads = [v for v in body.values if isinstance(v, Load)]
    return chosen if len(loads) > 1 and any(v in summed and v not in apart for v in loads) else []


def dependent(body: Body, axes: Sequence[Axis]) -> set[Value]:
    """The values of a body that are others at other points of the axes."""
    variables = [a.var for a in axes]
    found: set[Value] = set()
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
