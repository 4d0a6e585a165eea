"""Makes two kernels of a reduction with few results over much data, so that all threads work on it and sums stay short.

    sum [64,26,26,32] -> [32]      becomes      sum [64,26,26,32] -> [64,32],  sum [64,32] -> [32]

This is done when kernels have been fused: until then a reduction runs over the domain of the values it reduces, and
whoever makes these may take it in.

The split depends on shapes only. Of symbolic extents the nominal size counts, and it is along an axis whose size is a
number.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import extent as ext
from ..ir.extent import Extent, nominal
from ..ir.primitives import Node, Op, Shape
from .body import Body, Load, Reduction, point, variables

DOMAIN = 65536
"""Elements from which a reduction is worth splitting."""
ITEMS = 64
"""Work items that one loop should have, and parts that are made at most."""
FEW = 7
"""Points of a kept axis that are no work items of their own: a filter's taps in one direction."""
SHORT = 8
"""Elements that each sum of a part should have at least."""


def split(body: Body) -> list[Body]:
    """A body, or that of its parts and that of their sums."""
    domain, kinds = body.domain, {r.node.arg[0] for r in body.reductions}
    if not body.is_loop or not kinds or any(r.is_arg for r in body.reductions):
        return [body]
    kept = [k for k in range(len(domain)) if k not in body.axes]
    wide = [k for k, n in enumerate(domain) if n != 1]
    lanes = [k for k in kept if k in wide[-1:]]
    items = nominal(ext.product(n for k, n in enumerate(domain) if k in kept and k not in lanes and not _beside(n)))
    results = nominal(ext.product(domain[k] for k in kept))
    elements = nominal(ext.product(domain))
    if elements < DOMAIN or items >= ITEMS:
        return [body]
    for axis in body.axes:
        n = domain[axis]
        parts = _divisor(n, min(ITEMS, elements // (SHORT * results))) if isinstance(n, int) else 1
        if parts >= 4:
            return _cut(body, axis, parts)
    return [body]


def _beside(n: Extent) -> bool:
    """Whether the points of an axis may all have their sums in registers of one work item, as a filter's taps have."""
    return isinstance(n, int) and n <= FEW


def _cut(body: Body, axis: int, parts: int) -> list[Body]:
    domain = body.domain
    length = domain[axis]
    assert isinstance(length, int)
    wide: Shape = (*domain[:axis], parts, length // parts, *domain[axis + 1 :])
    new = [ext.of(v) for v in variables(wide)]
    places: dict[ext.Atom, Extent] = {v: new[k + (k > axis)] for k, v in enumerate(body.variables)}
    places[body.variables[axis]] = ext.add(ext.mul(new[axis], length // parts), new[axis + 1])
    inner = tuple(a if a < axis else a + 1 for a in body.axes)
    shape = tuple(n for k, n in enumerate(wide) if k not in inner)
    place = sum(1 for k in range(axis) if k not in inner)
    cut = replace(body.over(places), domain=wide, axes=inner)
    parted, whole = [], []
    for r in cut.reductions:
        arg = (r.node.arg[0], inner)
        part = Node(Op.REDUCE, r.node.src, shape, r.value.dtype.accumulator, arg, r.node.origin)
        parted.append(Reduction(r.value, part))
        whole.append(Reduction(Load(part.dtype, part, ext.ravel(point(shape), shape)), r.node))
    return [replace(cut, reductions=tuple(parted)), Body(shape, reductions=tuple(whole), axes=(place,))]


def _divisor(n: int, limit: int) -> int:
    """The largest divisor of n up to `limit`."""
    return max((d for d in range(1, min(n, limit) + 1) if n % d == 0), default=1)
