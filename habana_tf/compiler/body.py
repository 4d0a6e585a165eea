"""What a kernel computes, resolved: its body. Everything after scheduling reads bodies and never the tensor graph.

A kernel works on every point x0, x1, ... of its domain. Its body is what happens at one point: loads (which buffer,
at which offset, under which conditions), scalar functions of them, and what is stored or reduced. There are no views
in it: a permutation, a window or a padding is only another offset and another condition (`body_builder` makes it so).

    y = exp(pad(transpose(x)))      domain [5, 9]
                                    v0 = load x[5 * x1 + x0 - 5]   while 0 <= x1 - 1 < 7
                                    v1 = v0 inside of that range, else 0
                                    v2 = exp v1
                                    y[9 * x0 + x1] = v2

A *core* is what a loop over points cannot say: a contraction (the body is its epilogue, and begins with its result), a
sort, a scan, a scatter or random words (the body is what they read at a point).

A short float (bfloat16) is in float32 registers, and what is added, multiplied and so on keeps float32's digits until
it is stored. Where digits beyond its type would show (a comparison with what was stored, a sort, TensorFlow's Cast) the
body rounds it first: see `seen`.

Offsets are in elements, as expressions over the variables of the domain (see `ir.extent`). Values are compared by
identity; within a body equal ones are one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from habana_tf.compiler.contraction import View
from habana_tf.compiler.view_indices import Index, Range
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent, Var
from habana_tf.ir.primitives import Node, Op, Shape

Guard = tuple[Range, ...]
"""Conditions that hold wherever a value is looked at; outside of them nothing may be read."""


@dataclass(frozen=True, eq=False)
class Value:
    """A scalar at one point of the domain."""

    dtype: DType
    digits: DType | None = field(default=None, kw_only=True)
    """The float type whose digits do for it, where that is not its own: a shorter one if it is known to have no more,
    float32 if a short float has not been rounded yet."""

    @property
    def fits(self) -> DType:
        """The float type whose digits do for it; other types fit themselves."""
        return self.digits or self.dtype

    @property
    def args(self) -> tuple[Value, ...]:
        """The values it is made of."""
        return ()


@dataclass(frozen=True, eq=False)
class Constant(Value):
    number: bool | int | float


@dataclass(frozen=True, eq=False)
class Size(Value):
    """An extent as a value."""

    extent: Extent


@dataclass(frozen=True, eq=False)
class Position(Value):
    """An index as a value."""

    index: Extent


@dataclass(frozen=True, eq=False)
class Load(Value):
    """An element of a tensor in memory. as_stored: its place is known as an index of the tensor, not in memory only."""

    node: Node
    offset: Extent
    guard: Guard = ()
    as_stored: bool = True


@dataclass(frozen=True, eq=False)
class Lookup(Value):
    """The element of a tensor at indices that are values themselves, along `axes`; 0 where one is out of range.

    offset: where the element is along the other axes.
    """

    node: Node
    coords: tuple[Value, ...]
    axes: tuple[int, ...]
    offset: Extent
    guard: Guard = ()

    @property
    def args(self) -> tuple[Value, ...]:
        return self.coords


_OBSERVING = frozenset("eq ne lt le gt ge isinf isfinite floor ceil rint trunc floordiv floormod truncmod".split())
"""Functions that tell a number from its neighbours: of a short float they take what it is once it is stored."""
_CHOOSING = frozenset({"select", "max", "min", "neg", "abs"})
"""Functions whose result has no more digits than their operands."""


@dataclass(frozen=True, eq=False)
class Apply(Value):
    """A scalar function of values (see `ir.primitives`); `apply` makes it."""

    fn: str
    operands: tuple[Value, ...]

    @property
    def args(self) -> tuple[Value, ...]:
        return self.operands

    @property
    def data(self) -> DType:
        """The element type it computes with."""
        return self.operands[1 if self.fn == "select" else 0].dtype

    @property
    def is_free(self) -> bool:
        """Whether it is a cast that changes nothing: a short float is in a register as float32 is."""
        return self.fn == "cast" and self.dtype.accumulator is self.operands[0].dtype.accumulator is DType.F32


def apply(fn: str, dtype: DType, operands: tuple[Value, ...]) -> Value:
    """A function of values, with those rounded of which it would see too many digits."""
    if fn == "stored":
        return seen(operands[0])
    if fn in _OBSERVING:
        return Apply(dtype, fn, tuple(map(seen, operands)))
    made = Apply(dtype, fn, operands)
    if made.is_free:
        short = operands[0].fits
        digits = short if short.is_short and dtype in (short, DType.F32) else DType.F32
    elif fn in _CHOOSING:
        digits = _digits(operands[1:] if fn == "select" else operands)
    else:
        digits = dtype if fn in ("cast", "bitcast") else dtype.accumulator
    return replace(made, digits=digits)


def seen(v: Value) -> Value:
    """A value as it is once it is stored: with no more digits than its type has."""
    return Apply(v.dtype, "stored", (v,)) if v.dtype.is_short and v.fits is not v.dtype else v


def to_store(v: Value) -> Value:
    """What to write for a value: what it is before it is rounded to its type, since storing does that."""
    dtype = v.dtype
    while dtype.is_short and isinstance(v, Apply) and (v.is_free or v.fn == "stored" and v.dtype is dtype):
        v = v.operands[0]
    return v


def _digits(values: Sequence[Value]) -> DType:
    """The float type whose digits do for one of some values, whichever it is."""
    dtype = values[0].dtype
    found = {v.fits for v in values if not (isinstance(v, Constant) and v.number in (0, 1, -1))} or {dtype}
    return found.pop() if len(found) == 1 else dtype.accumulator


@dataclass(frozen=True, eq=False)
class Within(Value):
    """`inside` where all ranges hold, else `outside`; `within` makes it."""

    ranges: Guard
    inside: Value
    outside: Value

    @property
    def args(self) -> tuple[Value, ...]:
        return self.outside, self.inside


def within(ranges: Guard, inside: Value, outside: Value) -> Within:
    """A value where all ranges hold, else another of its type."""
    return Within(inside.dtype, ranges, inside, outside, digits=_digits((inside, outside)))


@dataclass(frozen=True, eq=False)
class Result(Value):
    """What the core gives at the point, in its accumulator's digits."""


@dataclass(frozen=True, eq=False)
class Store:
    """`value` is written to element `offset` of `target`."""

    value: Value
    target: Node
    offset: Extent


@dataclass(frozen=True, eq=False)
class Reduction:
    """`value` is reduced into `node`, a REDUCE over the body's axes. deviations: what is summed up is not the value but
    the square of its distance from its mean over these axes."""

    value: Value
    node: Node
    deviations: bool = False

    @property
    def is_arg(self) -> bool:
        """Whether what is kept is where the extreme is, beside the extreme."""
        return str(self.node.arg[0]).startswith("arg")


@dataclass(frozen=True, eq=False)
class Body:
    """axes: those of the domain that its reductions run over. core: the primitive that has a kernel of its own, if it
    is one; operands: what a contraction reads; steady: which of these are the same in all iterations of the loop it is
    in, so that a copy that is made for it is made once; inputs: what another core reads at a point; updates: whether it
    works on what is in its result already; overwritten: what it needs after it may have written over it (see
    `in_place`); streamed: what it writes past the caches (see `streamed_results`). through: the nodes it computes and
    the views it reads through, for people."""

    domain: Shape
    stores: tuple[Store, ...] = ()
    reductions: tuple[Reduction, ...] = ()
    axes: tuple[int, ...] = ()
    core: Node | None = None
    operands: tuple[View, ...] = ()
    steady: tuple[bool, ...] = ()
    inputs: tuple[Value, ...] = ()
    updates: bool = False
    overwritten: tuple[Node, ...] = ()
    streamed: tuple[Node, ...] = ()
    through: tuple[Node, ...] = ()

    @property
    def variables(self) -> list[Var]:
        """Of the domain's axes."""
        return variables(self.domain)

    @property
    def is_contraction(self) -> bool:
        return self.core is not None and self.core.op is Op.CONTRACT

    @property
    def is_loop(self) -> bool:
        """Whether it is a loop over its domain and no more."""
        return self.core is None

    @property
    def outputs(self) -> list[Node]:
        """The tensors it writes, in order, each as often as it is written."""
        own = [self.core] if self.core is not None and not self.is_contraction else []
        return [*own, *(s.target for s in self.stores), *(r.node for r in self.reductions)]

    @cached_property
    def values(self) -> list[Value]:
        """All values, each after those it is made of."""
        roots = [*self.inputs, *(s.value for s in self.stores), *(r.value for r in self.reductions)]
        done: dict[Value, None] = {}
        stack: list[tuple[Value, bool]] = [(v, False) for v in reversed(roots)]
        while stack:
            v, ready = stack.pop()
            if v in done:
                continue
            if ready:
                done[v] = None
            else:
                stack.append((v, True))
                stack.extend((a, False) for a in reversed(v.args))
        return list(done)

    @cached_property
    def reads(self) -> dict[Node, set[Extent | None]]:
        """The tensors it reads, in order of first use, each with the offsets of its loads; None among them where the
        place is known at run time only, or is not an index of the tensor."""
        found: dict[Node, set[Extent | None]] = {v.base: set() for v in self.operands}
        if self.core is not None and self.updates:
            found[self.core] = {None}
        for v in self.values:
            if isinstance(v, Load):
                found.setdefault(v.node, set()).add(v.offset if v.as_stored else None)
            elif isinstance(v, Lookup):
                found.setdefault(v.node, set()).add(None)
        return found

    @cached_property
    def work(self) -> int:
        """Scalar operations at a point."""
        return sum(1 if isinstance(v, Apply) else 2 if isinstance(v, Lookup | Within) else 0 for v in self.values)

    @cached_property
    def loaded_first(self) -> list[Load]:
        """What is loaded before anything is stored: it may be written over and is needed after that."""
        return [v for v in self.values if isinstance(v, Load) and v.node in self.overwritten]

    def loaded(self) -> list[Node]:
        """The tensors that its values are loaded from, in order of first use."""
        return list(dict.fromkeys(v.node for v in self.values if isinstance(v, Load | Lookup)))

    def offsets(self) -> Iterator[Extent]:
        """Where its values are loaded from; of a lookup what does not depend on values."""
        return (v.offset for v in self.values if isinstance(v, Load | Lookup))

    def conditions(self) -> Iterator[Extent]:
        """Index expressions that decide a value: positions, and what ranges are about."""
        for v in self.values:
            if isinstance(v, Position):
                yield v.index
            elif isinstance(v, Within):
                yield from (r.value for r in v.ranges)

    def without(self, targets: set[Node]) -> Body:
        """It, not storing these."""
        return replace(self, stores=tuple(s for s in self.stores if s.target not in targets))

    def over(self, places: dict[ext.Atom, Extent]) -> Body:
        """It, with variables of the domain replaced."""
        if not places:
            return self
        known: dict[Extent, Extent] = {}

        def at(e: Extent) -> Extent:
            if isinstance(e, int):
                return e
            if e not in known:
                known[e] = ext.substitute(e, places)
            return known[e]

        def under(guard: Guard) -> Guard:
            return tuple(replace(r, value=at(r.value), stop=at(r.stop)) for r in guard) if guard else guard

        new: dict[Value, Value] = {}
        for v in self.values:
            match v:
                case Position():
                    new[v] = replace(v, index=at(v.index))
                case Load():
                    new[v] = replace(v, offset=at(v.offset), guard=under(v.guard))
                case Lookup():
                    coords = tuple(new[c] for c in v.coords)
                    new[v] = replace(v, coords=coords, offset=at(v.offset), guard=under(v.guard))
                case Apply():
                    new[v] = replace(v, operands=tuple(new[a] for a in v.operands))
                case Within():
                    new[v] = replace(v, ranges=under(v.ranges), inside=new[v.inside], outside=new[v.outside])
                case _:
                    new[v] = v
        return replace(
            self,
            stores=tuple(Store(new[s.value], s.target, at(s.offset)) for s in self.stores),
            reductions=tuple(replace(r, value=new[r.value]) for r in self.reductions),
            inputs=tuple(new[v] for v in self.inputs),
        )


def variables(domain: Sequence[Extent]) -> list[Var]:
    """A variable per axis."""
    return [Var(f"x{k}", n) for k, n in enumerate(domain)]


def point(domain: Sequence[Extent]) -> Index:
    """The index of a point of a domain, by its variables."""
    return tuple(map(ext.of, variables(domain)))
