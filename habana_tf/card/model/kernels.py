"""A lowered cluster cut into the work of a card's engines: products for the MME, kernels for the TPC.

Every CONTRACT is a product, which writes its result in the type that a cast of it has. Everything else becomes kernels,
as Habana's graph compiler makes them: each op is one kernel, whose intermediate values are not in memory; neighbours
over the same elements are fused into one kernel, and so is an element-wise op with the only one that reads it, or parts
of it; views cost nothing. A SCATTER into an input that nothing else reads writes its rows there and moves no others.

    y = conv(x)      product            reads x, w; writes y
    BatchNorm        sums over y        kernel, reads y                   a sum over rows far apart ends a kernel
                     (y - m) * s + b    kernel, reads y, writes z         \\ one kernel: the same elements
    Relu             max(z, 0)                                           /
    Softmax          one kernel: rows of its sums fit the TPC's local memory
    RMS norm         one kernel: so does what is computed of a row's sum (1 / sqrt), however few elements that has
    rotary embedding x * cos + concat(-x[half:], x[:half]) * sin: one kernel, whose halves are read by it alone
    cache[at] = row  reads and writes a row

Invariant: each unit comes after all units that it reads from.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from habana_tf.ir import extent as ext
from habana_tf.ir.primitives import Node, Op, Program, users_of

VIEWS = frozenset({Op.RESHAPE, Op.EXPAND, Op.PERMUTE, Op.SLICE, Op.PAD, Op.WINDOW, Op.CONCAT})
CASTS = frozenset({"cast", "stored"})
MOVED = frozenset({Op.RESHAPE, Op.SLICE, Op.PAD, Op.CONCAT})
"""Views through which a kernel can read what it computes itself: elements stay near each other."""
WRITTEN = frozenset({Op.RESHAPE, Op.PERMUTE})
"""Views in whose order a product or a scatter can write its result."""
SOURCES = frozenset({Op.INPUT, Op.CONST, Op.IOTA, Op.EXTENT, Op.RANDOM})
"""Not computed from tensors; random numbers are made where they are used."""

ROW_BYTES = 64 << 10
"""A row that a kernel keeps while it sums over it. Source: the TPC's vector local memory is 80 KB (Habana's TPC user
guide); the rest is for what else the kernel needs."""


@dataclass
class Unit:
    """One product, or one kernel. index: its place in the order.

    results: the nodes it makes that count as tensors. inside: all primitives it computes. loads, stores: tensor ->
    bytes. elements: how many it walks. in_place: of the results, those that an input of the cluster becomes with so
    many elements written.
    """

    index: int
    product: bool
    elements: int
    results: list[Node] = field(default_factory=list)
    inside: set[Node] = field(default_factory=set)
    loads: dict[Node, int] = field(default_factory=dict)
    stores: dict[Node, int] = field(default_factory=dict)
    in_place: dict[Node, int] = field(default_factory=dict)

    @property
    def origin(self) -> int:
        """The op of the cluster that it came from, by index; that of its first result."""
        return self.results[0].origin


def size(n: Node) -> int:
    """Elements of a tensor all of whose extents are numbers."""
    return ext.nominal(n.numel)


def nbytes(n: Node) -> int:
    """Bytes of a tensor in memory."""
    return size(n) * n.dtype.bytes


@dataclass(frozen=True)
class SeenTensor:
    """A tensor seen through views. elements: how many of it are read. straight: each at its own index."""

    tensor: Node
    elements: int
    straight: bool


def through_views(n: Node) -> Iterator[SeenTensor]:
    """The tensors behind views, each once per path to it."""
    stack = [(n, size(n), True)]
    while stack:
        node, seen, straight = stack.pop()
        if node.op not in VIEWS:
            yield SeenTensor(node, seen, straight)
            continue
        straight = straight and node.op in (Op.RESHAPE, Op.EXPAND)
        for source in node.src[: 1 if node.op is Op.PAD else None]:
            stack.append((source, min(seen, size(source)), straight))


def behind_views(nodes: Iterable[Node]) -> set[Node]:
    """The tensors behind views of some nodes."""
    return {seen.tensor for n in nodes for seen in through_views(n)}


def in_rows(n: Node) -> bool:
    """Whether a REDUCE sums over rows that lie in one piece and fit a TPC's local memory."""
    _, axes = n.arg
    shape = [ext.nominal(e) for e in n.src[0].shape]
    wide = [k for k, extent in enumerate(shape) if extent > 1]
    reduced = [k for k in wide if k in axes]
    row = math.prod(shape[k] for k in reduced)
    return reduced == wide[len(wide) - len(reduced) :] and row * 4 <= ROW_BYTES


def in_slices(n: Node) -> bool:
    """Whether parts of a tensor are ready before all of it is: not of sums over rows far apart, scans, sorts, loops."""
    return n.op in (Op.MAP, Op.CONTRACT) or (n.op is Op.REDUCE and in_rows(n))


def _rounded_of(n: Node, tensors: Collection[Node] = ()) -> Node:
    """What a node is but for its type, for the largest number of that (of 8 bits) and for the order of its elements, up
    to the first of these tensors."""
    source, eighth = n, n.dtype.is_float and n.dtype.bytes == 1
    while source is n or source.op is not Op.MAP or source not in tensors:
        ends = eighth and source.op is Op.MAP and source.arg in ("min", "max") and _constant(source.src[1])
        if not (ends or source.op in WRITTEN or (source.op is Op.MAP and source.arg in CASTS)):
            break
        source = source.src[0]
    return source


def _constant(n: Node) -> bool:
    return all(seen.tensor.op is Op.CONST for seen in through_views(n))


class _Cutter:
    """A program being cut into units. results: the nodes that ops of the cluster give."""

    def __init__(self, program: Program, results: set[Node]) -> None:
        self.program = program
        self.units: list[Unit] = []
        self._maker: dict[Node, Unit] = {}
        self._readers: dict[Node, list[Unit]] = {}
        self._users = users_of(program.nodes())
        self._tensors = self._chosen(results)

    def run(self) -> list[Unit]:
        for n in self.program.nodes():
            if n.op in VIEWS or n.op in SOURCES or n not in self._tensors:
                continue
            self._add(n)
        self._store()
        return self.units

    def _chosen(self, results: set[Node]) -> set[Node]:
        """The nodes that are tensors in memory if another unit needs them: results of ops, and all nodes but maps."""
        kept = {n for n in self.program.nodes() if n.op is not Op.MAP}
        leaving = behind_views(self.program.outputs)
        made = behind_views(results)
        once: set[Node] = set()
        for n in reversed(self.program.nodes()):
            reader = self._only_reader(n) if n.op is Op.MAP and n not in leaving else None
            rounds = n.op is Op.MAP and _rounded_of(n).op is Op.CONTRACT and n is not _rounded_of(n)
            if reader is not None and not rounds and (reader in kept or reader in made or reader in once):
                once.add(n)
        return (kept | made | leaving) - once

    def _only_reader(self, n: Node) -> Node | None:
        """The one map that reads it, element by element or parts of it, or the one gather that reads a cast."""
        readers: set[Node] = set()
        stack = list(self._users.get(n, ()))
        while stack:
            user = stack.pop()
            if user.op in MOVED:
                stack += self._users.get(user, ())
            else:
                readers.add(user)
        if len(readers) != 1:
            return None
        (reader,) = readers
        return reader if reader.op is Op.MAP or (reader.op is Op.GATHER and n.arg in CASTS) else None

    def _overwritten(self, n: Node) -> bool:
        """Whether a SCATTER can write into the input of the cluster that it changes, which nothing else reads."""
        base = n.src[0]
        while len(self._users[base]) == 1 and base.src and (base.op in MOVED - {Op.CONCAT} or base.arg in CASTS):
            base = base.src[0]
        return base.op is Op.INPUT and len(self._users[base]) == 1

    def _reach(self, n: Node) -> tuple[dict[Node, SeenTensor], set[Node]]:
        """The tensors that a node is computed from, and the maps on the way."""
        loads: dict[Node, SeenTensor] = {}
        inside = {n}
        stack = list(n.src[1:] if n.op is Op.SCATTER and self._overwritten(n) else n.src)
        visited: set[Node] = set()
        while stack:
            for seen in through_views(stack.pop()):
                tensor = seen.tensor
                if n.op is Op.GATHER and seen.elements > size(n):
                    seen = SeenTensor(tensor, size(n), False)  # rows of a table
                if tensor.op is Op.RANDOM:
                    inside.add(tensor)
                elif tensor.op in SOURCES and (tensor.op is not Op.INPUT or size(tensor) == 1):
                    continue
                elif tensor.op is Op.MAP and tensor not in self._tensors:
                    inside.add(tensor)
                    if tensor not in visited:
                        visited.add(tensor)
                        stack.extend(tensor.src)
                else:
                    have = loads.get(tensor)
                    if have is None or (have.straight and not seen.straight) or have.elements < seen.elements:
                        straight = seen.straight and (have is None or have.straight)
                        loads[tensor] = SeenTensor(tensor, max(seen.elements, have.elements if have else 0), straight)
        return loads, inside

    def _add(self, n: Node) -> None:
        loads, inside = self._reach(n)
        product = n.op is Op.CONTRACT
        elements = size(n) if not n.src else max(size(n), size(n.src[0])) if n.op is not Op.MAP else size(n)
        written = size(n.src[1]) if n.op is Op.SCATTER and self._overwritten(n) else 0
        elements = written or elements
        unit = None if product else self._rounded(n) or self._home(n, loads, elements)
        if unit is None:
            unit = Unit(len(self.units), product, elements)
            self.units.append(unit)
        unit.results.append(n)
        unit.inside |= inside
        self._maker[n] = unit
        if written or unit.in_place:
            unit.in_place[n] = written or max(unit.in_place.values())
        for tensor, seen in loads.items():
            if self._maker.get(tensor, unit).index <= unit.index and self._maker.get(tensor) is not unit:
                unit.loads[tensor] = max(unit.loads.get(tensor, 0), seen.elements * tensor.dtype.bytes)
                self._readers.setdefault(tensor, []).append(unit)

    def _rounded(self, n: Node) -> Unit | None:
        """For the result of a product or of a scatter in a type that is no wider: the unit that makes it."""
        source = _rounded_of(n, self._tensors)
        narrow = n.op is Op.MAP and n.dtype.bytes <= source.dtype.bytes
        return self._maker.get(source) if narrow and source.op in (Op.CONTRACT, Op.SCATTER) else None

    def _home(self, n: Node, loads: dict[Node, SeenTensor], elements: int) -> Unit | None:
        """The unit that a node can be fused into: the last one over the same elements, if it comes after everything
        that the node needs."""
        if n.op not in (Op.MAP, Op.REDUCE):
            return None
        first = self._moments(n, loads) if n.op is Op.REDUCE else self._of_sums(loads, elements)
        if first is not None:
            return first
        near: dict[int, Unit] = {}
        latest = -1
        for tensor, seen in loads.items():
            maker = self._maker.get(tensor)
            if maker is not None:
                if any(t in self._maker for t in maker.loads):  # what needs the cluster's inputs alone can come first
                    latest = max(latest, maker.index)
                if seen.straight:
                    near[maker.index] = maker
            if size(tensor) >= elements:
                near.update({reader.index: reader for reader in self._readers.get(tensor, ())})
        for index in sorted(near, reverse=True):
            unit = near[index]
            if index < latest:
                return None
            if not unit.product and unit.elements == elements and self._on_the_way(unit, loads):
                return unit
        return None

    def _of_sums(self, loads: dict[Node, SeenTensor], elements: int) -> Unit | None:
        """For what is computed of a kernel's sums of rows alone: that kernel, which has the row at hand."""
        makers = {self._maker[tensor].index: self._maker[tensor] for tensor in loads if tensor in self._maker}
        if len(makers) != 1:
            return None
        (unit,) = makers.values()
        return unit if not unit.product and elements < unit.elements and self._on_the_way(unit, loads) else None

    def _moments(self, n: Node, loads: dict[Node, SeenTensor]) -> Unit | None:
        """For a sum of squared distances from a mean: the kernel that computes the mean. A card makes both in one pass,
        from sums and sums of squares."""
        large = [tensor for tensor in loads if size(tensor) > size(n)]
        if len(large) != 1:
            return None
        small = [self._maker[t] for t in loads if t is not large[0] and t in self._maker]
        for unit in self._readers.get(large[0], ()):
            same = any(r.op is Op.REDUCE and r.arg[1] == n.arg[1] for r in unit.results)
            if same and small and all(self._comes_from(maker, unit) for maker in small):
                return unit
        return None

    def _comes_from(self, unit: Unit, first: Unit) -> bool:
        """Whether everything that a unit reads was made by another one."""
        return unit is first or all(self._maker.get(tensor, first) is first for tensor in unit.loads)

    def _on_the_way(self, unit: Unit, loads: dict[Node, SeenTensor]) -> bool:
        """Whether a unit has what a node needs of it while it walks its elements: no sums except of rows."""
        for tensor, seen in loads.items():
            handed = seen.straight and tensor.op in (Op.MAP, Op.REDUCE) and in_slices(tensor)
            if self._maker.get(tensor) is unit and not handed:
                return False
        return True

    def _store(self) -> None:
        """Notes what each unit writes: what others read, and what leaves the cluster."""
        wanted = behind_views(self.program.outputs)
        for unit in self.units:
            for n in unit.results:
                if n in wanted or self._readers.get(n):
                    unit.stores[n] = unit.in_place.get(n, size(n)) * n.dtype.bytes


def cut(program: Program, results: set[Node]) -> list[Unit]:
    """The units of a lowered cluster all of whose extents are numbers. results: what ops of the cluster give."""
    return _Cutter(program, results).run()
