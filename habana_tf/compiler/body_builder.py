"""Builds the bodies of kernels from the tensor graph: the only place that resolves views (see `body`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from habana_tf.compiler.body import Body, Reduction, Store, point
from habana_tf.compiler.contraction import StridedView
from habana_tf.compiler.point_values import Guard, Load, PointValue, Result, seen, to_store
from habana_tf.compiler.primitive_classes import primitive
from habana_tf.compiler.primitive_families import Access, Inline, OwnKernel, ValueRule
from habana_tf.compiler.view_indices import Index
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node, Shape


@dataclass(eq=False)
class BodyBuilder:
    """Builds the values of one kernel.

    kept: the nodes in memory. own: those that the kernel computes itself, which are not loaded.
    """

    kept: set[Node]
    own: set[Node] = field(default_factory=set)
    through: dict[Node, None] = field(default_factory=dict)
    _known: dict[tuple[Node, Index, Guard], PointValue] = field(default_factory=dict)
    _loads: dict[tuple[Node, Extent, Guard], PointValue] = field(default_factory=dict)

    def define(self, node: Node, index: Index, value: PointValue) -> None:
        """Sets the value of a node in memory at an index, instead of a load."""
        self._loads[node, ext.ravel(index, node.shape), ()] = value

    def value(self, node: Node, index: Index) -> PointValue:
        """The value of a node at an index. Raises Unfit if the index of a reshape cannot be computed.

        Not recursive: chains of maps and views may be very long.
        """
        top = node, index, ()  # type: Access
        stack: list[tuple[Access, ValueRule | None]] = [(top, None)]
        while stack:
            at, formula = stack.pop()
            if self._find(*at) is not None:
                continue
            sources, make = formula or self._formula(*at)
            if sources and formula is None:
                stack.append((at, (sources, make)))
                stack.extend((s, None) for s in reversed(sources))
            else:
                self._known[at] = make(tuple(map(self._found, sources)))
        return self._found(top)

    def _found(self, at: Access) -> PointValue:
        found = self._find(*at)
        assert found is not None
        return found

    def _find(self, node: Node, index: Index, guard: Guard) -> PointValue | None:
        """A known value of a node, built under the same guard or a weaker one."""
        for k in range(len(guard), -1, -1):
            found = self._known.get((node, index, guard[:k]))
            if found is not None:
                return found
        return None

    def _formula(self, node: Node, index: Index, guard: Guard) -> ValueRule:
        """How to compute a node at an index: its sources, and a function of their values."""
        what = primitive(node)
        if node in self.kept and (node not in self.own or what.in_memory(node)):
            return (), lambda _: self._load(node, node, index, guard)
        assert isinstance(what, Inline), f"{node} is not in memory"
        self.through[node] = None
        if what.is_view and node.src[0] in self.kept and what.needs_in_memory(node):
            return (), lambda _: self._load(node.src[0], node, index, guard)
        sources, make = what.formula(node, index, guard)
        if node in self.kept:  # rounded, as other kernels load it
            return sources, lambda args: seen(make(args))
        return sources, make

    def _load(self, source: Node, node: Node, index: Index, guard: Guard) -> PointValue:
        """Loads from `source` at the offset of `index` in `node`, which is `source` or its reshape."""
        offset, as_stored = ext.ravel(index, node.shape), source is node
        found = self._loads.get((source, offset, ())) or self._loads.get((source, offset, guard))
        if found is None or isinstance(found, Load) and found.as_stored and not as_stored:
            found = self._loads[source, offset, guard] = Load(source.dtype, source, offset, guard, as_stored)
        return found


def contraction(node: Node, operands: tuple[StridedView, StridedView], kept: set[Node]) -> tuple[Body, BodyBuilder]:
    """The body of a contraction that stores its result, and the builder for values of its epilogue."""
    index = point(node.shape)
    builder = BodyBuilder(kept, {node})
    result = Result(node.dtype, digits=node.dtype.accumulator)
    builder.define(node, index, result)
    for source, view in zip(node.src, operands, strict=True):
        while source is not view.base and source not in kept and source.src:
            builder.through[source] = None
            source = source.src[0]
    stored = Store(result, node, ext.ravel(index, node.shape))
    body = Body(node.shape, (stored,), core=node, operands=operands, through=tuple(builder.through))
    return body, builder


def loop(
    domain: Shape, stores: Iterable[tuple[Node, Node, Index]], reduced: Iterable[Node], axes: tuple[int, ...],
    builder: BodyBuilder, spread: Mapping[Node, Node] | None = None,
) -> Body:  # fmt: skip
    """The body of a loop over a domain. stores: (value, target, shift), stored at the point plus `shift`; reduced:
    REDUCE nodes over `axes`; spread: of those that are sums of squared deviations, the node that deviates (see
    `deviations`)."""
    index = point(domain)
    stored = []
    for value, target, shift in stores:
        place = [ext.add(i, by) for i, by in zip(index, shift, strict=True)]
        stored.append(Store(to_store(builder.value(value, index)), target, ext.ravel(place, target.shape)))
    about = spread or {}
    reductions = [Reduction(builder.value(about.get(r, r.src[0]), index), r, r in about) for r in reduced]
    ordered = tuple(replace(r, value=seen(r.value)) if r.is_arg else r for r in reductions)
    return Body(domain, tuple(stored), ordered, axes, through=tuple(builder.through))


def alone(node: Node, what: OwnKernel, kept: set[Node]) -> Body:
    """The body of a primitive with its own kernel: its inputs at a point."""
    builder = BodyBuilder(kept, {node})
    sources = what.inputs(node)
    domain = sources[0].shape
    index = point(domain)
    inputs = tuple(seen(builder.value(s, (*index, *[0] * s.rank)[: s.rank])) for s in sources)
    return Body(domain, core=node, inputs=inputs, updates=what.updates, through=tuple(builder.through))
