"""Strides and linearity of index expressions in loop variables: what axis merging, fusion and vectorization ask."""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.ir.extent import Atom, Div, Extent, Mod, Prod, Sym, Var, add, factors_of, mul, of, product


def stride_of(e: Extent, v: Var) -> int | None:
    """The stride of `e` along `v` (0: independent of it); None if it is not constant."""
    if isinstance(e, int):
        return 0
    stride = 0
    for atom, c in e.terms:
        if atom == v:
            stride = c
        elif mentions(atom, v):
            return None
    return stride


def linear(e: Extent, variables: Sequence[Var]) -> tuple[tuple[Extent, ...], Extent] | None:
    """(stride per variable, value where all are 0) of an expression that is linear in the variables; strides may be
    symbolic. None if it is not linear."""
    steps: list[Extent] = [0] * len(variables)
    if isinstance(e, int):
        return tuple(steps), e
    const: Extent = e.const
    for atom, c in e.terms:
        along = [f for f in factors_of(atom) if f in variables]
        rest = [f for f in factors_of(atom) if f not in variables]
        if len(along) > 1 or not all(isinstance(f, Sym) for f in rest):
            return None
        step = mul(product(map(of, rest)), c)
        if along:
            k = next(k for k, v in enumerate(variables) if v == along[0])
            steps[k] = add(steps[k], step)
        else:
            const = add(const, step)
    return tuple(steps), const


def affine(e: Extent, variables: Sequence[Var]) -> tuple[tuple[int, ...], int] | None:
    """(stride per variable, constant) of an expression that is affine with constant strides; else None."""
    found = linear(e, variables)
    if found is None:
        return None
    steps = tuple(s for s in found[0] if isinstance(s, int))
    return (steps, found[1]) if len(steps) == len(variables) and isinstance(found[1], int) else None


def mentions(atom: Atom, v: Var) -> bool:
    """Whether an atom depends on a variable."""
    match atom:
        case Prod(factors=factors):
            return any(mentions(f, v) for f in factors)
        case Div(value=value) | Mod(value=value):
            return any(mentions(a, v) for a, _ in value.terms)
    return atom == v
