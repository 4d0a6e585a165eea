"""Batch blocking of loops: splits a loop (an RNN) into blocks of batch rows, which threads run independently.

    h, z = loop(100 trips, h[32,128], x[100,32,512], w)     each iteration is some kernels of a few microseconds, with a
                                                            barrier after each of them
    ->  2 blocks of  loop(100 trips, h[16,128], x[100,16,512], w)     one launch of 2 work items, no barriers

Legal if the body is independent along the batch: row i of its outputs depends only on row i of its inputs and on loop
invariants without rows (weights). `_Rows` follows the outputs' rows back through the body; a primitive that mixes rows
(a sum over the batch, a product of two carried matrices, an inner loop) leaves the loop as it is. Weights are shared by
all blocks and stay in the caches of the core that runs a block.

    memory      a block's rows are contiguous in each row of a sliced or stacked tensor: its windows have an offset.
                Temporaries of the loop have a part of the workspace per block (see `compile`)
    schedule    the body of a block is scheduled as usual, for fewer rows

Invariant: the blocks, and all results, depend on shapes only, never on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from habana_tf.compiler.costs import LOOP_ROWS_LEAST, LOOP_ROWS_MOST, LOOP_SHARED_BYTES
from habana_tf.ir.builder import Builder
from habana_tf.ir.primitives import Loop, Node, Op, Program, Shape, block_axis

NodeBlock = tuple[Node, int | None]
"""A node of the body: a block of it along an axis, or all of it."""


def in_blocks(program: Program) -> Program:
    """The program (after `rewrite`) with its loops in blocks, where legal."""
    made: dict[Node, Node] = {}
    cut: dict[Loop, tuple[Loop, tuple[int, ...]]] = {}
    for node in program.nodes():
        src = tuple(made[s] for s in node.src)
        arg = node.arg
        if node.op is Op.LOOP:
            loop, output = node.arg
            if loop not in cut:
                cut[loop] = _blocked(loop)
            arg = cut[loop][0], output
            src = tuple(src[k] for k in cut[loop][1])
        same = arg == node.arg and len(src) == len(node.src) and all(a is b for a, b in zip(src, node.src, strict=True))
        made[node] = node if same else replace(node, src=src, arg=arg)
    return replace(program, outputs=[made[n] for n in program.outputs])


def _blocked(loop: Loop) -> tuple[Loop, tuple[int, ...]]:
    """The loop in blocks, if legal, and for each of its inputs the number of the operand."""
    as_it_is = tuple(range(len(loop.body.inputs)))
    nodes = loop.body.nodes()
    if any(n.op is Op.LOOP for n in nodes):
        body = in_blocks(loop.body)
        return (loop if body.outputs == loop.body.outputs else replace(loop, body=body)), as_it_is
    rows = _common_rows(loop)
    size = _block(rows)
    if loop.trips in (0, 1) or rows is None or size is None:
        return loop, as_it_is
    if not all(isinstance(n, int) for node in nodes for n in node.shape):
        return loop, as_it_is
    found = _Rows(loop, rows, size)
    if not found.follow() or found.shared_bytes() > LOOP_SHARED_BYTES:
        return loop, as_it_is
    return found.build()


def _common_rows(loop: Loop) -> int | None:
    """The common number of rows of a loop's outputs along their block axes, else None."""
    sizes = set()
    for n in loop.body.outputs:
        axis = block_axis(n.shape)
        sizes.add(None if axis is None else n.shape[axis])
    (size,) = sizes if len(sizes) == 1 else (None,)
    return size if isinstance(size, int) else None


def _block(rows: int | None) -> int | None:
    """The rows of a block; None if there are too few, or no even split."""
    if rows is None:
        return None
    return max((n for n in range(LOOP_ROWS_LEAST, min(LOOP_ROWS_MOST, rows // 2) + 1) if rows % n == 0), default=None)


class _Rows:
    """Derives the body of a block of `size` of a loop's `rows`."""

    def __init__(self, loop: Loop, rows: int, size: int) -> None:
        self.loop, self.rows, self.size = loop, rows, size
        self._outputs: list[NodeBlock] = [(n, block_axis(n.shape)) for n in loop.body.outputs]
        self._order: dict[NodeBlock, tuple[NodeBlock, ...]] = {}
        """The needed blocks with their sources, in topological order."""

    def follow(self) -> bool:
        """Whether a block's rows of the outputs depend only on its rows of the inputs."""
        carried = set(self.loop.body.inputs[: self.loop.carried])
        stack: list[tuple[NodeBlock, tuple[NodeBlock, ...] | None]] = [(at, None) for at in reversed(self._outputs)]
        while stack:
            at, sources = stack.pop()
            if at in self._order:
                continue
            if sources is not None:
                self._order[at] = sources
                continue
            node, axis = at
            if axis is None:
                if node in carried or node.op is Op.RANDOM:
                    return False
                found: list[NodeBlock] | None = [(s, None) for s in node.src]
            else:
                found = _SOURCES[node.op](node, axis) if node.op in _SOURCES else None
            if found is None:
                return False
            stack.append((at, tuple(found)))
            stack.extend((s, None) for s in reversed(found) if s not in self._order)
        return True

    def shared_bytes(self) -> int:
        """Bytes of the tensors that all blocks read in every iteration."""
        first = self.loop.carried + len(self.loop.sliced)
        return sum(_bytes(n) for n in self.loop.body.inputs[first:] if (n, None) in self._order)

    def build(self) -> tuple[Loop, tuple[int, ...]]:
        """The loop in blocks, and for each of its inputs the number of the operand."""
        b, loop = Builder(), self.loop
        made: dict[NodeBlock, Node] = {}
        operands: list[int] = []
        apart: list[bool] = []
        sliced = []
        for k, inner in enumerate(loop.body.inputs):
            own: NodeBlock = inner, block_axis(inner.shape)
            rows = loop.sliced[k - loop.carried] if 0 <= k - loop.carried < len(loop.sliced) else None
            for at in [own] if k < loop.carried else [at for at in (own, (inner, None)) if at in self._order]:
                made[at] = b.input(self._shape(at), inner.dtype)
                operands.append(k)
                apart.append(at[1] is not None)
                sliced += [rows] if rows is not None else []
        for at, sources in self._order.items():
            if at not in made:
                b.origin = at[0].origin
                made[at] = b._node(at[0].op, [made[s] for s in sources], self._shape(at), at[0].dtype, at[0].arg)
        body = Program(b.inputs, [made[at] for at in self._outputs])
        blocks = self.rows // self.size
        cut = replace(loop, body=body, sliced=tuple(sliced), blocks=blocks, apart=tuple(apart))
        return cut, tuple(operands)

    def _shape(self, at: NodeBlock) -> Shape:
        node, axis = at
        return node.shape if axis is None else (*node.shape[:axis], self.size, *node.shape[axis + 1 :])


def _bytes(node: Node) -> int:
    return math.prod(n for n in node.shape if isinstance(n, int)) * node.dtype.bytes


def _input(node: Node, axis: int) -> list[NodeBlock] | None:
    """Blocks are contiguous along the first axis only."""
    return [] if axis == block_axis(node.shape) else None


def _map(node: Node, axis: int) -> list[NodeBlock] | None:
    return [(s, axis) for s in node.src]


def _expand(node: Node, axis: int) -> list[NodeBlock] | None:
    (x,) = node.src
    return [(x, None if x.shape[axis] == 1 else axis)]


def _reshape(node: Node, axis: int) -> list[NodeBlock] | None:
    (x,) = node.src
    before, after = _around(node.shape, axis)
    for k, n in enumerate(x.shape):
        if n == node.shape[axis] and _around(x.shape, k) == (before, after):
            return [(x, k)]
    return None


def _around(shape: Shape, axis: int) -> tuple[int, int]:
    """The numbers of elements of the axes before an axis, and after it."""
    sizes = [n if isinstance(n, int) else 0 for n in shape]
    return math.prod(sizes[:axis]), math.prod(sizes[axis + 1 :])


def _permute(node: Node, axis: int) -> list[NodeBlock] | None:
    return [(node.src[0], node.arg[axis])]


def _slice(node: Node, axis: int) -> list[NodeBlock] | None:
    begin, step = node.arg
    (x,) = node.src
    whole = begin[axis] == 0 and step[axis] == 1 and x.shape[axis] == node.shape[axis]
    return [(x, axis)] if whole else None


def _pad(node: Node, axis: int) -> list[NodeBlock] | None:
    x, value = node.src
    return None if any(sizes[axis] != 0 for sizes in node.arg) else [(x, axis), (value, None)]


def _window(node: Node, axis: int) -> list[NodeBlock] | None:
    (x,) = node.src
    return None if axis in node.arg[0] or axis >= x.rank else [(x, axis)]


def _concat(node: Node, axis: int) -> list[NodeBlock] | None:
    return None if axis == node.arg else [(s, axis) for s in node.src]


def _contract(node: Node, axis: int) -> list[NodeBlock] | None:
    label = node.arg.out[axis]
    sides = zip(node.src, (node.arg.a, node.arg.b), strict=True)
    return [(s, labels.index(label) if label in labels else None) for s, labels in sides]


def _reduce(node: Node, axis: int) -> list[NodeBlock] | None:
    (x,) = node.src
    return [(x, [k for k in range(x.rank) if k not in node.arg[1]][axis])]


def _gather(node: Node, axis: int) -> list[NodeBlock] | None:
    x, *coords = node.src
    leading = coords[0].rank
    if axis < leading:
        return [(x, None), *((c, axis) for c in coords)]
    rest = [k for k in range(x.rank) if k not in node.arg]
    return [(x, rest[axis - leading]), *((c, None) for c in coords)]


def _scatter(node: Node, axis: int) -> list[NodeBlock] | None:
    base, updates, *coords = node.src
    rest = [k for k in range(base.rank) if k not in node.arg[1]]
    if axis not in rest:
        return None
    return [(base, axis), (updates, coords[0].rank + rest.index(axis)), *((c, None) for c in coords)]


def _line(node: Node, axis: int) -> list[NodeBlock] | None:
    return None if axis == node.arg.axis else [(node.src[0], axis)]


_SOURCES: dict[Op, Callable[[Node, int], list[NodeBlock] | None]] = {
    Op.INPUT: _input,
    Op.MAP: _map,
    Op.EXPAND: _expand,
    Op.RESHAPE: _reshape,
    Op.PERMUTE: _permute,
    Op.SLICE: _slice,
    Op.PAD: _pad,
    Op.WINDOW: _window,
    Op.CONCAT: _concat,
    Op.CONTRACT: _contract,
    Op.REDUCE: _reduce,
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
    Op.SORT: _line,
    Op.SCAN: _line,
}
"""The blocks of its sources that a block of a node depends on; None if it depends on other rows. Other primitives
cannot be cut."""
