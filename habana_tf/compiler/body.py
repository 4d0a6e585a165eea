"""The body of a kernel: its scalar computation at one point of its iteration domain, with all views resolved.

Everything after scheduling reads bodies and never the tensor graph. A body has loads (which buffer, at which offset,
under which guard), scalar functions of them, stores and reductions. Views are folded into the offsets and guards of
loads (`body_builder`).

    y = exp(pad(transpose(x)))      domain [5, 9]
                                    v0 = load x[5 * x1 + x0 - 5]   if 0 <= x1 - 1 < 7
                                    v1 = v0 if 0 <= x1 - 1 < 7 else 0
                                    v2 = exp v1
                                    y[9 * x0 + x1] = v2

A *core* is a computation that is no loop over points: a contraction (the body is its epilogue and starts from its
result), a sort, a scan, a scatter or random numbers (the body is their input at a point).

Offsets count elements and are expressions of the domain's variables (see `ir.extent`). Values are compared by identity
and shared within a body.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from habana_tf.compiler.contraction import StridedView
from habana_tf.compiler.point_values import (
    Apply,
    Guard,
    Load,
    Lookup,
    PointValue,
    Position,
    Within,
    to_store,
)
from habana_tf.compiler.view_indices import Index
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent, Var
from habana_tf.ir.primitives import Node, Op, Shape, postorder


@dataclass(frozen=True, eq=False)
class Store:
    """`value` is written to element `offset` of `target`."""

    value: PointValue
    target: Node
    offset: Extent


@dataclass(frozen=True, eq=False)
class Reduction:
    """Reduces `value` into `node`, a REDUCE over the body's axes. deviations: the sum of squared deviations of the
    value from its mean over these axes."""

    value: PointValue
    node: Node
    deviations: bool = False

    @property
    def is_arg(self) -> bool:
        """Whether it is an argmax or argmin, which keeps an index beside the extreme."""
        return str(self.node.arg[0]).startswith("arg")


@dataclass(frozen=True, eq=False)
class Body:
    """A kernel's computation, see the module's docstring.

    axes: those of the domain that its reductions run over. core: see the module's docstring. operands: of a
    contraction; invariant: which of them are invariant in the loop around the kernel, so that they are packed once.
    inputs: of other cores, at a point. updates: the core modifies its result in place. overwritten: tensors read after
    they may have been overwritten (see `in_place`). streamed: results written with non-temporal stores (see
    `streamed_results`). through: for reports, the nodes it computes and the views it folds.
    """

    domain: Shape
    stores: tuple[Store, ...] = ()
    reductions: tuple[Reduction, ...] = ()
    axes: tuple[int, ...] = ()
    core: Node | None = None
    operands: tuple[StridedView, ...] = ()
    invariant: tuple[bool, ...] = ()
    inputs: tuple[PointValue, ...] = ()
    updates: bool = False
    overwritten: tuple[Node, ...] = ()
    streamed: tuple[Node, ...] = ()
    through: tuple[Node, ...] = ()

    @property
    def variables(self) -> list[Var]:
        """The loop variables of the domain's axes."""
        return variables(self.domain)

    @property
    def is_contraction(self) -> bool:
        return self.core is not None and self.core.op is Op.CONTRACT

    @property
    def is_loop(self) -> bool:
        """Whether it is a plain loop over its domain, without a core."""
        return self.core is None

    @property
    def outputs(self) -> list[Node]:
        """The tensors it writes, once per store or reduction, in order."""
        own = [self.core] if self.core is not None and not self.is_contraction else []
        return [*own, *(s.target for s in self.stores), *(r.node for r in self.reductions)]

    @cached_property
    def values(self) -> list[PointValue]:
        """All values in topological order, operands first."""
        stored = (*(s.value for s in self.stores), *(r.value for r in self.reductions))
        return postorder((*self.inputs, *stored), lambda v: v.args)

    @cached_property
    def reads(self) -> dict[Node, set[Extent | None]]:
        """The tensors it reads in order of first use, each with the offsets of its loads; None among them for an offset
        known at run time only, or not that of an index of the tensor."""
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
    def rounded(self) -> dict[PointValue, PointValue]:
        """By a value that may be stored in bf16: the same rounded, as another value is computed from it."""
        found = (v for v in self.values if isinstance(v, Apply) and v.fn == "stored" and v.dtype is DType.BF16)
        return {to_store(v): v for v in found}

    @cached_property
    def work(self) -> int:
        """Scalar operations at a point."""
        return sum(1 if isinstance(v, Apply) else 2 if isinstance(v, Lookup | Within) else 0 for v in self.values)

    @cached_property
    def loaded_first(self) -> list[Load]:
        """Loads to make before any store: their memory is overwritten and their values are needed afterwards."""
        return [v for v in self.values if isinstance(v, Load) and v.node in self.overwritten]

    def loaded(self) -> list[Node]:
        """The tensors that it loads elements of, in order of first use."""
        return list(dict.fromkeys(v.node for v in self.values if isinstance(v, Load | Lookup)))

    def offsets(self) -> Iterator[Extent]:
        """The offsets of its loads; of lookups, the part that does not depend on values."""
        return (v.offset for v in self.values if isinstance(v, Load | Lookup))

    def conditions(self) -> Iterator[Extent]:
        """Index expressions that determine values: positions, and the expressions of ranges."""
        for v in self.values:
            if isinstance(v, Position):
                yield v.index
            elif isinstance(v, Within):
                yield from (r.value for r in v.ranges)

    def without(self, targets: set[Node]) -> Body:
        """The body without stores to some targets."""
        return replace(self, stores=tuple(s for s in self.stores if s.target not in targets))

    def over(self, places: dict[ext.Atom, Extent]) -> Body:
        """The body with variables of the domain substituted."""
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

        new: dict[PointValue, PointValue] = {}
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
    """A loop variable per axis."""
    return [Var(f"x{k}", n) for k, n in enumerate(domain)]


def point(domain: Sequence[Extent]) -> Index:
    """The index of a point of a domain: its variables."""
    return tuple(map(ext.of, variables(domain)))
