"""Extents: integer expressions over loop variables and symbols, as shapes and memory offsets.

An extent (one dimension of a shape) is a Python int, or an `Expr` when it is only known at run time. The same algebra
(`expression`) describes where a kernel reads and writes: an offset is an `Expr` over the kernel's loop variables.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from habana_tf.ir.expression import (
    Atom,
    Div,
    Expr,
    Extent,
    Mod,
    Prod,
    Sym,
    Var,
    add,
    bounds,
    div,
    factors_of,
    is_size,
    mod,
    mul,
    of,
    sym,
    var,
)

__all__ = [
    "LARGEST", "NOMINAL", "Atom", "Div", "Expr", "Extent", "Mod", "Prod", "Sym", "Var", "add", "bounds", "ceil_div",
    "div", "divide", "evaluate", "factors_of", "is_size", "mod", "mul", "nominal", "of", "overflow", "product", "ravel",
    "substitute", "sym", "unravel", "var",
]  # fmt: skip


def product(values: Iterable[Extent]) -> Extent:
    out: Extent = 1
    for v in values:
        out = mul(out, v)
    return out


def ceil_div(e: Extent, by: int) -> Extent:
    """The quotient rounded up."""
    return div(add(e, by - 1), by)


LARGEST = 2**63 - 1
"""The largest size: the runtime, generated code and TensorFlow keep sizes as int64."""


def overflow(shape: Iterable[Extent]) -> tuple[int, int] | None:
    """Where the number of elements of a shape overflows int64: the product so far, and the extent that exceeds LARGEST.

    Extents are multiplied in order, as TensorFlow does: a later zero does not help. None for a shape with symbols.
    """
    so_far = 1
    for n in shape:
        if not isinstance(n, int):
            return None
        if so_far * n > LARGEST:
            return so_far, n
        so_far *= n
    return None


def substitute(e: Extent, values: dict[Atom, Extent]) -> Extent:
    """`e` with variables or symbols replaced."""
    if isinstance(e, int):
        return e
    out: Extent = e.const
    for atom, c in e.terms:
        out = add(out, mul(_substitute_atom(atom, values), c))
    return out


def _substitute_atom(atom: Atom, values: dict[Atom, Extent]) -> Extent:
    if atom in values:
        return values[atom]
    match atom:
        case Prod(factors=factors):
            return product(_substitute_atom(f, values) for f in factors)
        case Div(value=value, by=by):
            return div(substitute(value, values), by)
        case Mod(value=value, by=by):
            return mod(substitute(value, values), by)
    return of(atom)


def divide(e: Extent, by: Extent) -> Extent | None:
    """The exact quotient, if every term of `e` is divisible by `by`; None where that is unknown."""
    if isinstance(e, int) and isinstance(by, int):
        return e // by if by and e % by == 0 else None
    if e == by:
        return 1
    if isinstance(e, int):
        return None
    below: tuple[Atom, ...] = ()
    d = by
    if isinstance(by, Expr):
        if by.const or len(by.terms) != 1:  # by a sum: try the quotients of single terms
            return next((q for q in _multiples(e, by) if mul(q, by) == e), None)
        ((other, d),) = by.terms
        below = factors_of(other)
    assert isinstance(d, int)
    if not d or e.const % d or (e.const and below):
        return None
    out: Extent = e.const // d
    for atom, c in e.terms:
        left = list(factors_of(atom))
        if c % d or any(below.count(f) > left.count(f) for f in below):
            return None
        for f in below:
            left.remove(f)
        out = add(out, mul(product(map(of, left)), c // d))
    return out


def _multiples(e: Expr, by: Expr) -> Iterable[Extent]:
    """The quotient of each term of `e` by the first term of `by`."""
    lead, d = by.terms[0]
    for atom, c in e.terms:
        q = divide(Expr(((atom, c),), 0), Expr(((lead, d),), 0))
        if q is not None:
            yield q


NOMINAL = 64
"""The value assumed for a symbolic extent in cost estimates; no result depends on it."""


def nominal(e: Extent) -> int:
    """An extent as a number for estimates of work and size."""
    if isinstance(e, int):
        return e
    number = substitute(e, dict.fromkeys(symbols(e), NOMINAL))
    assert isinstance(number, int), f"{e} mentions a loop variable"
    return max(1, number)


def symbols(e: Extent) -> set[Sym]:
    """Those that an extent has in it."""
    found: set[Sym] = set()
    stack: list[Atom] = [] if isinstance(e, int) else [atom for atom, _ in e.terms]
    while stack:
        match stack.pop():
            case Sym() as atom:
                found.add(atom)
            case Prod(factors=factors):
                stack.extend(factors)
            case Div(value=value) | Mod(value=value):
                stack.extend(atom for atom, _ in value.terms)
    return found


def ravel(index: Iterable[Extent], shape: Iterable[Extent]) -> Extent:
    """The row-major offset of a multi-dimensional index."""
    return _ravel(tuple(index), tuple(shape))


@functools.lru_cache(maxsize=4096)
def _ravel(index: tuple[Extent, ...], shape: tuple[Extent, ...]) -> Extent:
    """Cached: a network asks for the same indices of a few shapes thousands of times."""
    offset: Extent = 0
    for i, n in zip(index, shape, strict=True):
        offset = add(mul(offset, n), i)
    return offset


def unravel(offset: Extent, shape: Sequence[Extent]) -> tuple[Extent, ...]:
    """The multi-dimensional index of a row-major offset; only the shape's first extent may be symbolic."""
    out: list[Extent] = []
    for n in reversed(shape[1:]):
        assert isinstance(n, int), f"an index into {shape} over run-time extents"
        out.append(mod(offset, n))
        offset = div(offset, n)
    return (offset, *reversed(out)) if shape else ()


def evaluate(e: Extent, dims: list[int]) -> int:
    """The value of an extent, given those of the symbols."""
    if isinstance(e, int):
        return e
    match e:
        case Expr(terms=((Sym(index=index), 1),), const=0):  # the common case
            return dims[index]
    result = substitute(e, {Sym(i): n for i, n in enumerate(dims)})
    assert isinstance(result, int), f"{e} still mentions a loop variable"
    return result
