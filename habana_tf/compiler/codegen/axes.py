"""Loop coalescing: merges the axes of a kernel's domain into as few loops as its memory accesses allow.

A domain [64, 26, 26, 32] whose tensors are all accessed in row-major order is one loop over 1,384,448 elements; with a
per-channel operand the last axis stays separate. Neighbouring axes merge if in every index expression the outer stride
is the inner stride times the inner extent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from habana_tf.compiler.body import variables
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Atom, Expr, Extent, Var
from habana_tf.ir.linearity import mentions


@dataclass(frozen=True)
class LoopAxis:
    """A loop axis: its variable, extent, and the domain's axes merged into it, outermost first."""

    var: Var
    extent: Extent
    members: tuple[int, ...]
    reduced: bool


def merge(domain: Sequence[Extent], reduced: Sequence[int], expressions: Sequence[Extent]) -> list[LoopAxis]:
    """The loop axes of a domain, outermost first, without axes of extent 1.

    expressions: index expressions over the domain's variables. Only axes of the same kind (kept or reduced) merge.
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
        out.append(LoopAxis(Var(f"x{g[-1]}", extent), extent, tuple(g), g[0] in reduced))
    return out


def places_of(domain: Sequence[Extent], axes: Sequence[LoopAxis]) -> dict[Atom, Extent]:
    """The substitution of the domain's variables by those of merged axes.

    The merged index replaces the innermost variable, beyond its range, and 0 the others: right since all accesses are
    linear in them.
    """
    places = variables(domain)
    out: dict[Atom, Extent] = {}
    for axis in axes:
        if len(axis.members) > 1:
            out.update((places[k], 0) for k in axis.members[:-1])
            out[places[axis.members[-1]]] = ext.of(axis.var)
    return out


def _together(e: Extent, outer: Var, inner: Var, n: Extent) -> bool:
    """Whether the stride of `e` along `outer` is n times that along `inner`."""
    if isinstance(e, int):
        return True
    a, b = slope(e, outer), slope(e, inner)
    return a is not None and b is not None and a == ext.mul(b, n)


def slope(e: Expr, v: Var) -> Extent | None:
    """The stride of `e` along `v`, possibly symbolic; None if it is not linear."""
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
