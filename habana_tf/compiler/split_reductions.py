"""Splits large reductions with few results into two kernels, partial sums and their sum, for parallelism and accuracy.

    sum [64,26,26,32] -> [32]      becomes      sum [64,26,26,32] -> [64,32],  sum [64,32] -> [32]
    sum [16,40,40,32] -> [32]      becomes      sum [16,4,10,40,32] -> [16,4,32],  sum [16,4,32] -> [32]

It runs after fusion: until then a reduction runs over the domain of its operand and can be fused with its producer.

The split depends on shapes only, nominal ones for symbolic extents, and is along axes of constant size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from habana_tf.compiler.body import Body, Reduction, point
from habana_tf.compiler.costs import (
    MANY_WORK_ITEMS,
    SPLIT_ELEMENTS,
    SPLIT_FEW_POINTS,
    SPLIT_PART_LONG,
    SPLIT_PART_SHORT,
)
from habana_tf.compiler.point_values import Load
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent, nominal
from habana_tf.ir.primitives import Node, Op


def split(body: Body) -> list[Body]:
    """The body, or the two of partial reductions and of their combination."""
    domain, kinds = body.domain, {r.node.arg[0] for r in body.reductions}
    if not body.is_loop or not kinds or any(r.is_arg for r in body.reductions):
        return [body]
    kept = [k for k in range(len(domain)) if k not in body.axes]
    wide = [k for k, n in enumerate(domain) if n != 1]
    lanes = [k for k in kept if k in wide[-1:]]
    items = nominal(
        ext.product(n for k, n in enumerate(domain) if k in kept and k not in lanes and not _in_registers(n))
    )
    results = nominal(ext.product(domain[k] for k in kept))
    elements = nominal(ext.product(domain))
    if elements < SPLIT_ELEMENTS or items >= MANY_WORK_ITEMS:
        return [body]
    cuts: dict[int, int] = {}
    for axis in body.axes:
        n, made = domain[axis], math.prod(cuts.values())
        most = min(MANY_WORK_ITEMS, elements // ((SPLIT_PART_LONG if cuts else SPLIT_PART_SHORT) * results)) // made
        parts = _divisor(n, most) if isinstance(n, int) else 1
        if parts >= (2 if cuts else 4):
            cuts[axis] = parts
    return _cut(body, cuts) if cuts else [body]


def _in_registers(n: Extent) -> bool:
    """Whether a work item can hold the sums of all of an axis' points in registers, as those of a filter's taps."""
    return isinstance(n, int) and n <= SPLIT_FEW_POINTS


def _cut(body: Body, cuts: Mapping[int, int]) -> list[Body]:
    """The partial and the combining body. cuts: the number of parts per axis."""
    wide: list[Extent] = []
    inner, parts = [], []
    places: dict[ext.Atom, Extent] = {}
    for axis, (n, v) in enumerate(zip(body.domain, body.variables, strict=True)):
        at = len(wide)
        if axis in cuts:
            assert isinstance(n, int)
            parts.append(at)
            wide.extend((cuts[axis], n // cuts[axis]))
            places[v] = ext.add(ext.mul(ext.var(f"x{at}", wide[at]), wide[at + 1]), ext.var(f"x{at + 1}", wide[at + 1]))
        else:
            wide.append(n)
            places[v] = ext.var(f"x{at}", n)
        if axis in body.axes:
            inner.append(len(wide) - 1)
    left = [k for k in range(len(wide)) if k not in inner]
    shape = tuple(wide[k] for k in left)
    cut = replace(body.over(places), domain=tuple(wide), axes=tuple(inner))
    parted, whole = [], []
    for r in cut.reductions:
        arg = (r.node.arg[0], tuple(inner))
        part = Node(Op.REDUCE, r.node.src, shape, r.value.dtype.accumulator, arg, r.node.origin)
        parted.append(Reduction(r.value, part))
        whole.append(Reduction(Load(part.dtype, part, ext.ravel(point(shape), shape)), r.node))
    together = Body(shape, reductions=tuple(whole), axes=tuple(left.index(k) for k in parts))
    return [replace(cut, reductions=tuple(parted)), together]


def _divisor(n: int, limit: int) -> int:
    """The largest divisor of n up to `limit`."""
    return max((d for d in range(1, min(n, limit) + 1) if n % d == 0), default=1)
