"""Loop axes: merges the axes of a kernel's domain into as few as its memory accesses allow.

A domain [64, 26, 26, 32] whose tensors are all walked in row-major order is one loop over 1,384,448 elements; a
per-channel operand keeps the last axis apart. Axes that move together in every index expression of a body
(each step of the outer one is `extent` steps of the inner) become one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from habana_tf.compiler.body import variables
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Atom, Expr, Extent, Var
from habana_tf.ir.linearity import mentions


@dataclass(frozen=True)
class Axis:
    """A loop axis: its variable, extent, and the axes of the domain merged into it (first is outermost)."""

    var: Var
    extent: Extent
    members: tuple[int, ...]
    reduced: bool


def merge(domain: Sequence[Extent], reduced: Sequence[int], expressions: Sequence[Extent]) -> list[Axis]:
    """The loop axes of a domain, outermost first; axes of extent 1 are dropped.

    expressions: index expressions over the domain's variables. Only neighbouring axes of the same kind (kept or
    reduced) merge.
    """
    places = variables(domain)
    groups: list[list[int]] = []
    for k, n in enumerate(domain):
        if n == 1:
            continue
        if groups and (groups[-1][-1] in reduced) == (k in reduced):
            outer = places[groups[-1][-1]]
            if all(_together(e, outer, places[k], n) for e in expressions):
                groups[-1].append(k)
                continue
        groups.append([k])
    out = []
    for g in groups:
        extent = ext.product(domain[k] for k in g)
        out.append(Axis(Var(f"x{g[-1]}", extent), extent, tuple(g), g[0] in reduced))
    return out


def places_of(domain: Sequence[Extent], axes: Sequence[Axis]) -> dict[Atom, Extent]:
    """What stands for the domain's variables where merged axes are walked.

    A merged axis's whole count is put at its innermost member: every access is linear there, so the offsets come
    out right although that member's own range is exceeded.
    """
    places = variables(domain)
    out: dict[Atom, Extent] = {}
    for axis in axes:
        if len(axis.members) > 1:
            out.update((places[k], 0) for k in axis.members[:-1])
            out[places[axis.members[-1]]] = ext.of(axis.var)
    return out


def _together(e: Extent, outer: Var, inner: Var, n: Extent) -> bool:
    """Whether `e` moves by n inner steps for each step of `outer`, both linearly."""
    if isinstance(e, int):
        return True
    a, b = slope(e, outer), slope(e, inner)
    return a is not None and b is not None and a == ext.mul(b, n)


def slope(e: Expr, v: Var) -> Extent | None:
    """The coefficient of `v` (possibly with symbolic extents); None where `e` is not linear in it."""
    total: Extent = 0
    for atom, c in e.terms:
        if atom == v:
            total = ext.add(total, c)
        elif isinstance(atom, ext.Prod) and v in atom.factors:
            rest = list(atom.factors)
            rest.remove(v)
            if any(mentions(f, v) for f in rest):
                return None
            total = ext.add(total, ext.mul(ext.product(ext.of(f) for f in rest), c))
        elif mentions(atom, v):
            return None
    return total
