"""Builds the LOOP of a group of products (see `row_blocks`), its inputs and its outputs.

    input with rows           sliced: a block of rows per iteration, [iterations, blocks * rows, ...]
    input without rows        invariant, of each block or shared by all
    an end with rows          stacked: a block of rows per iteration
    an end that sums rows     carried, in fp32, with the initial value 0

Blocks are contiguous in memory (see `primitives.Loop`), so inputs are permuted before: q, k and v with heads before
positions. They are small compared with the scores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from habana_tf.compiler.row_block_cuts import CutNode, Cuts
from habana_tf.compiler.row_block_groups import ProductGroup
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Loop, Node, Op, Program, whole, with_sources


class RowLoop:
    """Builds loops; shares nodes that are inputs of several loops."""

    def __init__(self) -> None:
        self._b = Builder()
        self._leaves: dict[tuple[CutNode, int], Node] = {}
        """Leaves of loops for later ones, by the rows of a block: a row per iteration, blocks in order."""

    def build(self, group: ProductGroup, made: Mapping[Node, Node]) -> dict[Node, Node]:
        """The new nodes of a group's ends. made: the new nodes of its inputs."""
        rows = group.block
        body = _Body(group, rows)
        heads, trips = math.prod(group.batch), group.rows // rows
        summed = {end: body.sums(end) for end in group.ends if not body.has_rows(end)}
        left = {end: body.product(end) for end in group.ends if body.has_rows(end)}
        left |= {node: body.value((node, cuts)) for node, cuts in group.leaves.items()}
        sources: list[Node] = []
        inputs: list[Node] = []
        apart: list[bool] = []
        for start, _ in summed.values():
            inputs.append(start)
            sources.append(self._b.const(0, start.dtype, whole(start.shape, heads)))
            apart.append(True)
        given = sorted(body.given.items(), key=lambda item: item[0][0][1][-1] is None)
        for ((node, cuts), order), inner in given:
            inputs.append(inner)
            left_over = self._leaves.get(((node, cuts), rows)) if order == in_order(node, cuts) else None
            sources.append(left_over or self._permuted(made[node], cuts, order, group, inner, trips))
            apart.append(any(axis is not None for axis in cuts[:-1]))
        sliced = sum(cuts[-1] is not None for ((_, cuts), _), _ in given)
        program = _with_inputs([result for _, result in summed.values()] + list(left.values()), inputs)
        loop = Loop(
            trips, program, len(summed), ((0, 1),) * sliced, ((0, 1),) * len(left), heads, tuple(apart)
        )  # fmt: skip
        results = self._b.loop(loop, sources)
        for node, result in zip([*summed, *left], results, strict=True):
            if node in group.leaves:
                self._leaves[(node, group.leaves[node]), rows] = result
        return {
            node: self._restored(node, group, result, rows, node in left)
            for node, result in zip([*summed, *left], results, strict=True)
        }

    def _permuted(
        self, x: Node, cuts: Cuts, order: Sequence[int], group: ProductGroup, inner: Node, trips: int
    ) -> Node:
        """A tensor in the layout of the loop's input."""
        b = self._b
        heads = any(axis is not None for axis in cuts[:-1])
        sizes = [n if isinstance(n, int) else 0 for n in x.shape]
        if heads:  # broadcast over missing batch axes
            missing = [k for k, axis in enumerate(cuts[:-1]) if axis is None]
            lead = [group.batch[k] for k in missing]
            x = b.expand(b.reshape(x, (*[1] * len(lead), *sizes)), (*lead, *sizes))
            at = iter(range(len(lead)))
            batch = [next(at) if axis is None else axis + len(lead) for axis in cuts[:-1]]
            order, sizes = [k + len(lead) for k in order], [*lead, *sizes]
            row = None if cuts[-1] is None else cuts[-1] + len(lead)
        else:
            batch, row = [], cuts[-1]
        rest = [k for k in order if k not in batch]
        shape = whole(inner.shape, math.prod(group.batch)) if heads else inner.shape
        if row is None:
            return b.reshape(b.permute(x, [*batch, *rest]), shape)
        x = b.reshape(x, (*sizes[:row], trips, sizes[row] // trips, *sizes[row + 1 :]))
        moved = [k + (k >= row) for k in (*batch, *rest)]
        return b.reshape(b.permute(x, [row, *moved]), (trips, *shape))

    def _restored(self, node: Node, group: ProductGroup, result: Node, rows: int, has_rows: bool) -> Node:
        """A result of the loop in the layout of the program."""
        b = self._b
        is_end = node in group.ends
        cuts = group.end_cuts(node)[1] if is_end else group.leaves[node]
        batch = [axis for axis in cuts[:-1] if axis is not None]
        row = cuts[-1]
        sizes = [n if isinstance(n, int) else 0 for n in node.shape]
        inner = [k for k in (range(node.rank) if is_end else in_order(node, cuts)) if k not in batch]
        lead = [group.rows // rows] if has_rows else []
        here = [rows if k == row else sizes[k] for k in inner]
        x = b.reshape(result, [*lead, *(sizes[k] for k in batch), *here])
        places = {k: len(lead) + at for at, k in enumerate([*batch, *inner])}
        order: list[int] = []
        for k in range(node.rank):
            order += [0, places[k]] if k == row else [places[k]]
        x = b.reshape(b.permute(x, order), node.shape)
        return b.cast(x, node.dtype)


class _Body:
    """Builds the body of the loop: one block, with rows as the last axis of wide values.

    given: its inputs, by block and order of axes.
    """

    def __init__(self, group: ProductGroup, rows: int) -> None:
        self.b = Builder()
        self.given: dict[tuple[CutNode, tuple[int, ...]], Node] = {}
        self._group, self._rows = group, rows
        self._made: dict[CutNode, Node] = {}
        self._read = {at for (node, _), sources in group.order.items() if node.op is Op.CONTRACT for at in sources}
        for at, sources in group.order.items():
            self.b.origin = at[0].origin
            self._made[at] = self._node(at, sources)

    def has_rows(self, end: Node) -> bool:
        return self._group.end_cuts(end)[1][-1] is not None

    def value(self, at: CutNode) -> Node:
        """A computed value, rows last."""
        return self._made[at]

    def product(self, end: Node, dtype: DType | None = None) -> Node:
        """An end: the product of its wide and its other operand."""
        wide, cuts = self._group.ends[end]
        other, _ = self._group.end_cuts(end)
        self.b.origin = end.origin
        x = self._permuted((end.src[wide], cuts), in_order(end.src[wide], cuts))
        y = self._in_program_order((end.src[1 - wide], other))
        spec: Contraction = end.arg
        own = spec.a if wide == 0 else spec.b
        labels_in_order = tuple(own[k] for k in in_order(end.src[wide], cuts))
        a, b = (labels_in_order, spec.b) if wide == 0 else (spec.a, labels_in_order)
        pair = (x, y) if wide == 0 else (y, x)
        return self.b.contract(*pair, Contraction(a, b, spec.out, spec.accumulator), dtype or end.dtype)

    def sums(self, end: Node) -> tuple[Node, Node]:
        """An end that sums over rows: its carried value before and after an iteration."""
        more = self.product(end, DType.F32)
        start = self.b.input(more.shape, DType.F32)
        return start, self.b.map("add", start, more)

    def _node(self, at: CutNode, sources: Sequence[CutNode]) -> Node:
        node, cuts = at
        b, order = self.b, in_order(node, cuts)
        match node.op:
            case Op.MAP:
                return b.map(node.arg, *(self._permuted(s, order) for s in sources), dtype=node.dtype)
            case Op.EXPAND:
                return b.expand(self._permuted(sources[0], order), self._shape(at, order))
            case Op.RESHAPE:
                return b.reshape(self._permuted(sources[0], in_order(*sources[0])), self._shape(at, order))
            case Op.PERMUTE:
                own = in_order(*sources[0])
                return b.permute(self._permuted(sources[0], own), [own.index(node.arg[k]) for k in order])
            case Op.REDUCE:
                kind, axes = node.arg
                own = in_order(*sources[0])
                dtype = node.dtype if kind.startswith("arg") else None
                return b.reduce(kind, self._permuted(sources[0], own), [own.index(k) for k in axes], dtype)
            case Op.CONTRACT:
                spec: Contraction = node.arg
                x, y = (self._in_program_order(s) for s in sources)
                out = tuple(spec.out[k] for k in order)
                # Rounded wherever it is recomputed: with sums of differently rounded scores, probabilities are wrong
                sums = b.contract(x, y, Contraction(spec.a, spec.b, out, spec.accumulator), DType.F32)
                return b.cast(sums, node.dtype)
        assert node.op is Op.CONST
        return b._node(Op.CONST, (), (), node.dtype, node.arg)

    def _in_program_order(self, at: CutNode) -> Node:
        """An operand of a product, its axes in the program's order."""
        return self._input(at, tuple(range(at[0].rank)))

    def _permuted(self, at: CutNode, order: Sequence[int]) -> Node:
        """A value with its axes in the given order."""
        if at in self._made:
            x, have = self._made[at], in_order(*at)
        elif at in self._read:
            x, have = self._in_program_order(at), tuple(range(at[0].rank))
        else:
            return self._input(at, tuple(order))
        return self.b.permute(x, [have.index(k) for k in order])

    def _input(self, at: CutNode, order: tuple[int, ...]) -> Node:
        key = at, order
        if key not in self.given:
            self.given[key] = self.b.input(self._shape(at, order), at[0].dtype)
        return self.given[key]

    def _shape(self, at: CutNode, order: Sequence[int]) -> list[int]:
        node, cuts = at
        sizes = {k: n for k, n in enumerate(node.shape) if isinstance(n, int)}
        sizes.update((axis, 1) for axis in cuts[:-1] if axis is not None)
        if cuts[-1] is not None:
            sizes[cuts[-1]] = self._rows
        return [sizes[k] for k in order]


def in_order(node: Node, cuts: Cuts) -> tuple[int, ...]:
    """The order of a node's axes within a block: rows last."""
    row = cuts[-1]
    rest = [k for k in range(node.rank) if k != row]
    return tuple(rest if row is None else [*rest, row])


def _with_inputs(outputs: Sequence[Node], inputs: Sequence[Node]) -> Program:
    """The program of some outputs with its inputs in a given order."""
    numbered = {n: replace(n, arg=k) for k, n in enumerate(inputs)}
    made: dict[Node, Node] = {}
    for node in Program(list(inputs), list(outputs)).nodes():
        made[node] = numbered[node] if node in numbered else with_sources(node, tuple(made[s] for s in node.src))
    return Program([numbered[n] for n in inputs], [made[n] for n in outputs])
