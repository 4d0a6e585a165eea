"""Finds the groups of products that `row_blocks` turns into loops, and how their values are cut into blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from habana_tf.compiler.costs import (
    SCORES_BLOCK_BYTES,
    SCORES_BYTES,
    SCORES_HANDED_BYTES,
    SCORES_HEADS,
    SCORES_OPERAND_RATIO,
    SCORES_RATIO,
    SCORES_ROWS,
)
from habana_tf.compiler.row_block_cuts import CutNode, Cuts, block_sources, cuts_of, known_sizes
from habana_tf.ir.primitives import Node, Op, Program, users_of

_INLINE = frozenset({Op.MAP, Op.EXPAND, Op.RESHAPE, Op.PERMUTE, Op.REDUCE})


@dataclass(eq=False)
class ProductGroup:
    """Products that one loop computes.

    ends: the products, each with the number of its wide operand and that operand's cuts. order: the blocks that they
    need with their sources, in topological order. inputs: the blocks that are computed before the loop. leaves: blocks
    that later groups use, with their cuts: reductions over rows, and wide operands of ends that are not too large.
    after: the groups whose leaves it uses. Such groups have blocks of equally many rows, unless a later group reduced
    one: then the values are rearranged.

    batch: sizes of the batch axes. rows: their number, `block` of which are an iteration. columns: wide values per row.
    """

    batch: tuple[int, ...]
    rows: int
    columns: int
    ends: dict[Node, tuple[int, Cuts]] = field(default_factory=dict)
    order: dict[CutNode, tuple[CutNode, ...]] = field(default_factory=dict)
    inputs: dict[CutNode, None] = field(default_factory=dict)
    block: int = 0
    leaves: dict[Node, Cuts] = field(default_factory=dict)
    after: list[ProductGroup] = field(default_factory=list)

    def sources(self) -> list[Node]:
        """The nodes that are computed before the loop, in order of first use."""
        operands = [end.src[1 - wide] for end, (wide, _) in self.ends.items()]
        return list(dict.fromkeys([*(node for node, _ in self.inputs), *operands]))

    def end_cuts(self, end: Node) -> tuple[Cuts, Cuts]:
        """The cuts of an end's other operand, and of its result."""
        wide, cuts = self.ends[end]
        spec = end.arg
        own, other = (spec.a, spec.b) if wide == 0 else (spec.b, spec.a)
        labels = [None if axis is None else own[axis] for axis in cuts]
        return cuts_of(other, labels), cuts_of(spec.out, labels)

    def products(self) -> int:
        """The number of wide products that it computes."""
        return sum(node.op is Op.CONTRACT for node, _ in self.order)


def groups(program: Program) -> list[ProductGroup]:
    """The groups of a program, without those whose wide values must be in memory anyway."""
    nodes = program.nodes()
    wide = _wide(nodes)
    if not wide:
        return []
    found = _Search(nodes, wide).groups()
    users = users_of(nodes)
    while True:  # dropping a group may force values that it shares with others into memory
        ends = {end for group in found for end in group.ends}
        read = (n for n in wide if any(u not in wide and u not in ends for u in users.get(n, ())))
        kept = {*read, *(n for n in program.outputs if n in wide)}
        for n in reversed(nodes):
            if n in kept:
                kept.update(s for s in n.src if s in wide)
        good = [group for group in found if not any(node in kept for node, _ in group.order)]
        good = [group for group in good if all(other in good for other in group.after)]
        if len(good) == len(found):
            return found
        found = good


def _wide(nodes: Sequence[Node]) -> dict[Node, None]:
    """The wide products, and the values computed from them without another product."""
    found: dict[Node, None] = {}
    for n in nodes:
        if n.op is Op.CONTRACT:
            if not any(s in found for s in n.src) and _is_wide(n):
                found[n] = None
        elif n.op in _INLINE and any(s in found for s in n.src):
            found[n] = None
    return found


def _is_wide(n: Node) -> bool:
    if not all(isinstance(size, int) for s in (n, *n.src) for size in s.shape):
        return False
    size = math.prod(known_sizes(n))
    return size * 4 >= SCORES_BYTES and size >= SCORES_RATIO * sum(math.prod(known_sizes(s)) for s in n.src)


class _Search:
    """The search for groups among the ends of a program."""

    def __init__(self, nodes: Sequence[Node], wide: dict[Node, None]) -> None:
        self._wide = wide
        self._ends = [n for n in nodes if n.op is Op.CONTRACT and n not in wide and sum(s in wide for s in n.src) == 1]
        numbers = {n: 1 << k for k, n in enumerate(self._ends)}
        self._before: dict[Node, int] = {}
        """The ends that a node depends on, itself included, as bits."""
        for n in nodes:
            bits = numbers.get(n, 0)
            for s in n.src:
                bits |= self._before[s]
            self._before[n] = bits
        self._bit = numbers
        self._left: dict[CutNode, ProductGroup] = {}
        """The group that computes each possible leaf first."""
        self._found: list[ProductGroup] = []

    def groups(self) -> list[ProductGroup]:
        waiting = list(self._ends)
        for end in self._ends:
            if end not in waiting:
                continue
            group = self._group(end)
            if group is None:
                continue
            waiting.remove(end)
            for other in list(waiting):
                if self._joins(group, other):
                    waiting.remove(other)
            self._hand_over(group)
            self._found.append(group)
        return self._found

    def _group(self, end: Node) -> ProductGroup | None:
        """The group of an end that has rows, if there is one."""
        wide = 0 if end.src[0] in self._wide else 1
        spec = end.arg
        own, other = (spec.a, spec.b) if wide == 0 else (spec.b, spec.a)
        sizes = dict(zip(own, known_sizes(end.src[wide]), strict=True))
        batch = [x for x in own if x in other and x in spec.out and sizes[x] > 1]
        heads = math.prod(sizes[x] for x in batch)
        if heads < SCORES_HEADS:
            return None
        for row in (x for x in own if x in spec.out and x not in other and sizes[x] > 1):
            columns = math.prod(n for x, n in sizes.items() if x not in (*batch, row))
            group = ProductGroup(tuple(sizes[x] for x in batch), sizes[row], columns)
            cuts = cuts_of(own, [*batch, row])
            if self._follow(group, end, (end.src[wide], cuts)) and _fits(group, end, wide, cuts):
                group.block = _rows_of_block(group)
                if group.block >= min(SCORES_ROWS, group.rows) and self._can_run(group):
                    return group
        return None

    def _hand_over(self, group: ProductGroup) -> None:
        """Adds the inputs of a group to earlier groups' leaves, and registers its own possible leaves."""
        for earlier in group.after:
            earlier.block = group.block = min(earlier.block, group.block)
        for at in group.inputs:
            if at in self._left:
                self._left[at].leaves[at[0]] = at[1]
        for at in group.order:
            if at[0].op is Op.REDUCE:
                self._left[at] = group
        for end, (wide, cuts) in group.ends.items():
            node = end.src[wide]
            if math.prod(known_sizes(node)) * node.dtype.bytes <= SCORES_HANDED_BYTES:
                self._left[node, cuts] = group

    def _joins(self, group: ProductGroup, end: Node) -> bool:
        """Adds an end to a group, if the group computes its wide operand and their ends are independent."""
        wide = 0 if end.src[0] in self._wide else 1
        cuts = next((cuts for node, cuts in (*group.order, *group.inputs) if node is end.src[wide]), None)
        if cuts is None or any(
            self._before[end] & self._bit[other] or self._before[other] & self._bit[end] for other in group.ends
        ):
            return False
        spec = end.arg
        own, other = (spec.a, spec.b) if wide == 0 else (spec.b, spec.a)
        labels = [own[axis] for axis in cuts if axis is not None]
        if any(x not in spec.out or x not in other for x in labels[:-1]):
            return False
        row = labels[-1]
        if (row in spec.out) == (row in other) or not _fits(group, end, wide, cuts):
            return False
        if not self._can_run(group):
            del group.ends[end]
            return False
        return True

    def _follow(self, group: ProductGroup, end: Node, start: CutNode) -> bool:
        """Adds all that a wide node depends on to a group. Whether all of it can be cut."""
        stack: list[tuple[CutNode, tuple[CutNode, ...] | None]] = [(start, None)]
        cut: dict[Node, Cuts] = {}
        while stack:
            at, sources = stack.pop()
            if at in group.order or at in group.inputs:
                continue
            if sources is not None:
                group.order[at] = sources
                continue
            node, cuts = at
            if node in self._wide and (None in cuts or cut.setdefault(node, cuts) != cuts):
                return False
            earlier = self._left.get(at)
            if earlier is not None and earlier.batch == group.batch and self._is_before(earlier, end):
                group.inputs[at] = None
                if earlier not in group.after:
                    group.after.append(earlier)
                continue
            if self._is_given(group, at):
                if not _is_small(group, node) or not _give(group, at):
                    return False
                continue
            found = block_sources(node, cuts)
            if found is None or (node.op is Op.CONTRACT and not all(_give(group, s) for s in found)):
                return False
            stack.append((at, tuple(found)))
            stack.extend((s, None) for s in reversed(found) if s not in group.order)
        return True

    def _is_before(self, group: ProductGroup, end: Node) -> bool:
        """Whether no end of a group depends on this one."""
        return not any(self._before[other] & self._bit[end] for other in group.ends)

    def _can_run(self, group: ProductGroup) -> bool:
        """Whether a group depends on no group that depends on it, also indirectly: a loop runs as a whole, so different
        ends of two loops must not depend on each other in both directions."""
        waiting, seen = [group], {group}
        while waiting:
            one = waiting.pop()
            needed = 0
            for end in one.ends:
                needed |= self._before[end]
            for other in (*self._found, group):
                if other is one or not (other in one.after or any(needed & self._bit[end] for end in other.ends)):
                    continue
                if other is group:
                    return False
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
        return True

    def _is_given(self, group: ProductGroup, at: CutNode) -> bool:
        """Whether a node is computed before the loop: it is not wide, nor computed per row and column."""
        node, cuts = at
        if node in self._wide or _is_number(node):
            return False
        if cuts[-1] is None or node.op not in _INLINE:
            return True
        rest = math.prod(n for k, n in enumerate(node.shape) if k not in cuts and isinstance(n, int))
        return rest < group.columns


def _is_number(node: Node) -> bool:
    """Whether it is a constant scalar, perhaps broadcast."""
    while node.op in (Op.EXPAND, Op.RESHAPE):
        (node,) = node.src
    return node.op is Op.CONST and node.rank == 0


def _rows_of_block(group: ProductGroup) -> int:
    """The rows of an iteration: as many as fit, whole vectors of them if possible."""
    most = max(SCORES_ROWS, SCORES_BLOCK_BYTES // (4 * group.columns * (1 + group.products())))
    fitting = [n for n in range(1, min(most, group.rows) + 1) if group.rows % n == 0]
    return max(fitting, key=lambda n: (n % SCORES_ROWS == 0, n))


def _is_small(group: ProductGroup, node: Node) -> bool:
    sizes = [n if isinstance(n, int) else 0 for n in node.shape]
    return math.prod(sizes) * SCORES_OPERAND_RATIO <= math.prod(group.batch) * group.rows * group.columns


def _give(group: ProductGroup, at: CutNode) -> bool:
    """Makes a block an input of the group, if possible."""
    good = _can_be_given(at)
    if good:
        group.inputs[at] = None
    return good


def _can_be_given(at: CutNode) -> bool:
    node, cuts = at
    if not all(isinstance(n, int) for n in node.shape):
        return False
    alone = all(n == 1 for k, n in enumerate(node.shape) if k not in cuts) and cuts[-1] is None
    return not alone or all(axis is None for axis in cuts)


def _fits(group: ProductGroup, end: Node, wide: int, cuts: Cuts) -> bool:
    """Adds an end to a group, if its other operand can be an input and its result has more than one row."""
    group.ends[end] = wide, cuts
    other, result = group.end_cuts(end)
    good = _can_be_given((end.src[1 - wide], other)) and (
        result[-1] is not None or any(n != 1 for k, n in enumerate(end.shape) if k not in result)
    )
    if not good:
        del group.ends[end]
    return good
