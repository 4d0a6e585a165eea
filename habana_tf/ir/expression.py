"""Integer expressions in a canonical form, and their arithmetic.

An `Expr` is a sum  const + sum(coefficient * atom)  with integer coefficients; an atom is a loop variable, a symbolic
extent, a product of atoms, or a floor division or remainder by a positive int. The canonical form makes equal
expressions compare equal and shows the stride of a variable at once.

Invariants: an Expr that is constant is always a plain int (use the module's functions, not the constructors);
variables are never negative, symbolic extents are at least 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


class _Hashed:
    """Caches the hash: expressions are nested, and are keys of many tables."""

    def __hash__(self) -> int:
        try:
            found: int = self.__dict__["_hash"]
        except KeyError:
            found = self.__dict__["_hash"] = hash((type(self), *self.__dict__.values()))
        return found


@dataclass(frozen=True)
class Var(_Hashed):
    """A loop variable running over [0, extent)."""

    name: str
    extent: Extent

    __hash__ = _Hashed.__hash__


@dataclass(frozen=True)
class Sym:
    """A symbolic extent: entry `index` of the recipe's run-time dims."""

    index: int


@dataclass(frozen=True)
class Prod(_Hashed):
    """A product of two or more atoms, in sorted order."""

    factors: tuple[Atom, ...]

    __hash__ = _Hashed.__hash__


@dataclass(frozen=True)
class _Division(_Hashed):
    value: Expr
    by: int

    __hash__ = _Hashed.__hash__


class Div(_Division):
    """Floor division of an expression by a positive constant."""


class Mod(_Division):
    """Remainder of an expression by a positive constant."""


Atom = Var | Sym | Prod | Div | Mod


@dataclass(frozen=True, repr=False)
class Expr(_Hashed):
    """const + sum(coefficient * atom), with atoms in sorted order."""

    terms: tuple[tuple[Atom, int], ...]
    const: int

    __hash__ = _Hashed.__hash__

    def __add__(self, other: Extent) -> Extent:
        return add(self, other)

    __radd__ = __add__

    def __sub__(self, other: Extent) -> Extent:
        return add(self, mul(other, -1))

    def __rsub__(self, other: Extent) -> Extent:
        return add(other, mul(self, -1))

    def __mul__(self, other: Extent) -> Extent:
        return mul(self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: int) -> Extent:
        return div(self, other)

    def __mod__(self, other: int) -> Extent:
        return mod(self, other)

    def __str__(self) -> str:
        parts = [_show(a) if c == 1 else f"{c}*{_show(a)}" for a, c in self.terms]
        if self.const or not parts:
            parts.append(str(self.const))
        return "+".join(parts)

    __repr__ = __str__


Extent = int | Expr


def _show(atom: Atom) -> str:
    match atom:
        case Var(name=name):
            return name
        case Sym(index=index):
            return f"s{index}"
        case Prod(factors=factors):
            return "*".join(map(_show, factors))
        case Div(value=value, by=by):
            return f"(({value})//{by})"
        case Mod(value=value, by=by):
            return f"(({value})%{by})"


def _make(terms: dict[Atom, int], const: int) -> Extent:
    kept = {a: c for a, c in terms.items() if c}
    if len(kept) == 1:
        return Expr(tuple(kept.items()), const)
    for atom, c in list(kept.items()):  # (x // d) * d * c + (x % d) * c  ==  x * c
        if isinstance(atom, Mod) and kept.get(atom) == c:
            quotient = _atom_of(div(atom.value, atom.by))
            if quotient is not None and kept.get(quotient) == c * atom.by:
                del kept[atom], kept[quotient]
                return add(_make(kept, const), mul(atom.value, c))
        if isinstance(atom, Mod) and atom.by == 2 and kept.get(atom) == c and is_size(atom.value):
            above = _atom_of(div(add(atom.value, 1), 2))  # 2 * ((x + 1) // 2) - x % 2  ==  x
            if above is not None and kept.get(above) == -2 * c:
                del kept[atom], kept[above]
                return add(_make(kept, const), mul(atom.value, -c))
    if len(kept) > 1 and (simplified := _simplified(kept, const)) is not None:
        return simplified
    if not kept:
        return const
    return Expr(tuple(sorted(kept.items(), key=lambda item: _show(item[0]))), const)


def _simplified(kept: dict[Atom, int], const: int) -> Extent | None:
    """Simplifies x - x % d to d * (x // d) and x - d * (x // d) to x % d, for x without loop variables; else None."""
    for atom, c in kept.items():
        if not isinstance(atom, Mod | Div) or not is_size(atom.value):
            continue
        x, d = atom.value, atom.by
        if isinstance(atom, Mod):
            times, other = -c, mul(of(Div(x, d)), d)
        elif c % d == 0:
            times, other = -(c // d), mod(x, d)
        else:
            continue
        signs = (times, c) if d == 2 and isinstance(atom, Mod) else (times,)  # x % 2 is -x % 2 too
        for k in signs:
            if all(kept.get(a) == n * k for a, n in x.terms):
                if k == c:
                    other = mul(div(add(x, 1), 2), 2)
                taken = {a for a, _ in x.terms} | {atom}
                rest = _make({a: n for a, n in kept.items() if a not in taken}, const - k * x.const)
                return add(rest, mul(other, k))
    return None


def is_size(e: Extent) -> bool:
    """Whether an expression has no loop variables."""
    return isinstance(e, int) or all(_is_size(atom) for atom, _ in e.terms)


def _is_size(atom: Atom) -> bool:
    match atom:
        case Var():
            return False
        case Prod(factors=factors):
            return all(map(_is_size, factors))
        case Div(value=value) | Mod(value=value):
            return is_size(value)
    return True


def _atom_of(e: Extent) -> Atom | None:
    """The atom of an expression that is a single atom, else None."""
    if isinstance(e, Expr) and e.const == 0 and len(e.terms) == 1 and e.terms[0][1] == 1:
        return e.terms[0][0]
    return None


def of(atom: Atom) -> Extent:
    """An atom as an expression; a variable of extent 1 is 0."""
    if isinstance(atom, Var) and atom.extent == 1:
        return 0
    return Expr(((atom, 1),), 0)


def var(name: str, extent: Extent) -> Extent:
    return of(Var(name, extent))


def sym(index: int) -> Extent:
    return of(Sym(index))


def add(a: Extent, b: Extent) -> Extent:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if a == 0:
        return b
    if b == 0:
        return a
    terms: dict[Atom, int] = {}
    const = 0
    for side in (a, b):
        if isinstance(side, int):
            const += side
            continue
        const += side.const
        for atom, c in side.terms:
            terms[atom] = terms.get(atom, 0) + c
    return _make(terms, const)


def mul(a: Extent, b: Extent) -> Extent:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if isinstance(a, int):
        a, b = b, a
    assert isinstance(a, Expr)
    if isinstance(b, int):
        return a if b == 1 else _make({atom: c * b for atom, c in a.terms}, a.const * b)
    out: dict[Atom, int] = {}
    for atom, c in a.terms:
        for other, d in b.terms:
            factors = (*factors_of(atom), *factors_of(other))
            product = Prod(tuple(sorted(factors, key=_show)))
            out[product] = out.get(product, 0) + c * d
        if b.const:
            out[atom] = out.get(atom, 0) + c * b.const
    for other, d in b.terms:
        if a.const:
            out[other] = out.get(other, 0) + d * a.const
    return _make(out, a.const * b.const)


def factors_of(atom: Atom) -> tuple[Atom, ...]:
    """The factors of a product; any other atom is its only factor."""
    return atom.factors if isinstance(atom, Prod) else (atom,)


def bounds(e: Extent) -> tuple[int, int | None]:
    """Smallest and largest value; None for an unknown largest value."""
    if isinstance(e, int):
        return e, e
    low, high = e.const, e.const  # type: int, int | None
    for atom, c in e.terms:
        alow, ahigh = _atom_bounds(atom)
        if c > 0:
            low += c * alow
            high = None if high is None or ahigh is None else high + c * ahigh
        else:
            high = None if high is None else high + c * alow
            low = -(1 << 62) if ahigh is None else low + c * ahigh
    return low, high


def _atom_bounds(atom: Atom) -> tuple[int, int | None]:
    match atom:
        case Var(extent=extent):
            return 0, (extent - 1 if isinstance(extent, int) else None)
        case Sym():
            return 1, None
        case Prod(factors=factors):
            lows = [_atom_bounds(f)[0] for f in factors]
            return (math.prod(lows) if min(lows) >= 0 else -(1 << 62)), None
        case Mod(by=by):
            return 0, by - 1
        case Div(value=value, by=by):
            low, high = bounds(value)
            return low // by, None if high is None else high // by


def div(e: Extent, by: int) -> Extent:
    """Floor division by a positive constant."""
    if by == 1:
        return e
    if isinstance(e, int):
        return e // by
    whole = {a: c // by for a, c in e.terms if c % by == 0}
    rest = _make({a: c for a, c in e.terms if c % by}, e.const % by)
    out = _make(dict(whole), e.const // by)
    low, high = bounds(rest)
    if -(1 << 32) < low < 0:  # generated divisions are unsigned
        turns = -(low // by)
        rest, out = add(rest, turns * by), add(out, -turns)
        low, high = bounds(rest)
    if low >= 0 and high is not None and high < by:
        return out
    if isinstance(rest, int):
        return add(out, rest // by)
    if len(rest.terms) == 1 and rest.terms[0][1] == 1 and isinstance(rest.terms[0][0], Div):
        inner = rest.terms[0][0]
        return add(out, div(add(inner.value, rest.const * inner.by), inner.by * by))
    if rest.terms[0][1] < 0 and is_size(rest):
        return add(out, mul(div(add(mul(rest, -1), by - 1), by), -1))
    return add(out, of(Div(rest, by)))


def mod(e: Extent, by: int) -> Extent:
    """Remainder by a positive constant."""
    if by == 1:
        return 0
    if isinstance(e, int):
        return e % by
    terms: dict[Atom, int] = {}
    const = e.const
    for atom, c in e.terms:
        if isinstance(atom, Mod) and atom.by % by == 0 and is_size(atom.value):  # (x % 4 + 1) % 2 is (x + 1) % 2
            const += c * atom.value.const
            inner = [(a, c * k) for a, k in atom.value.terms]
        else:
            inner = [(atom, c)]
        for a, k in inner:
            terms[a] = terms.get(a, 0) + k
    rest = _make({a: k % by for a, k in terms.items() if k % by}, const % by)
    if isinstance(rest, int):
        return rest % by
    low, high = bounds(rest)
    if low >= 0 and high is not None and high < by:
        return rest
    if is_size(rest):
        if by == 2 and rest.const == 1:  # (x + 1) % 2
            return add(1, mul(mod(add(rest, -1), 2), -1))
        if 2 * rest.terms[0][1] > by:  # -x % d, seen from the other side
            return add(by - 1, mul(mod(add(mul(rest, -1), by - 1), by), -1))
    return of(Mod(rest, by))
