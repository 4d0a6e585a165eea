"""Rewrites of a program before it is scheduled.

`finish_outputs` gives every output a node of its own (an output that is an input, or stands twice, becomes a copy),
and takes what was reshaped for an output that is a reshape: it is the same bytes, and needs no copy.

`as_loops` (products_to_reductions.py) makes reductions of products per example over strides known at run time only.

`split_reductions` turns a reduction with few results over much data into two, so that all threads work on it and
sums stay short. The split depends on shapes only:

    sum [64,26,26,32] -> [32]      becomes      sum [64,676,32] -> [64,32],  sum [64,32] -> [32]

Of symbolic extents the nominal size counts, and the split is along an axis whose size is a number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..ir.extent import nominal
from ..ir.primitives import Node, Op, Program
from .products_to_reductions import as_loops

SPLIT_DOMAIN = 65536
"""Elements from which a reduction is worth splitting."""
SPLIT_RESULTS = 512
"""Results below which one pass has too few work items."""
PARTS = 64


def rewrite(program: Program) -> Program:
    return split_reductions(_rebuild(finish_outputs(program), as_loops))


def finish_outputs(program: Program) -> Program:
    outputs: list[Node] = []
    for whole in program.outputs:
        node = whole
        while node.op is Op.RESHAPE and node.src[0].op not in (Op.INPUT, Op.CONST):
            node = node.src[0]
        if node in outputs or node in program.outputs:
            node = whole
        if node.op in (Op.INPUT, Op.CONST) or node in outputs:
            node = Node(Op.RESHAPE, (node,), node.shape, node.dtype, None, node.origin)
        outputs.append(node)
    return Program(program.inputs, outputs, program.states, program.conditions)


def split_reductions(program: Program) -> Program:
    return _rebuild(program, _split)


def _rebuild(program: Program, change: Callable[[Node], Node]) -> Program:
    """The program with `change` applied to every node, sources first."""
    made: dict[Node, Node] = {}
    for node in program.nodes():
        src = tuple(made[s] for s in node.src)
        same = all(a is b for a, b in zip(src, node.src, strict=True))
        made[node] = change(node if same else replace(node, src=src))
    outputs = [made[n] for n in program.outputs]
    return Program(program.inputs, outputs, program.states, program.conditions)


def _split(node: Node) -> Node:
    if node.op is not Op.REDUCE or node.arg[0].startswith("arg"):
        return node
    kind, axes = node.arg
    x = node.src[0]
    if nominal(x.numel) < SPLIT_DOMAIN or nominal(node.numel) > SPLIT_RESULTS:
        return node
    for axis in axes:
        n = x.shape[axis]
        parts = _divisor(n, PARTS) if isinstance(n, int) else 1
        if parts < 4:
            continue
        assert isinstance(n, int)
        accumulate = x.dtype.accumulator
        split = (*x.shape[:axis], parts, n // parts, *x.shape[axis + 1 :])
        wide = Node(Op.RESHAPE, (x,), split, x.dtype, None, node.origin)
        if accumulate is not x.dtype:
            wide = Node(Op.MAP, (wide,), split, accumulate, "cast", node.origin)
        inner = tuple(a if a < axis else a + 1 for a in axes)
        shape = tuple(m for a, m in enumerate(split) if a not in inner)
        partial = Node(Op.REDUCE, (wide,), shape, accumulate, (kind, inner), node.origin)
        place = sum(1 for a in range(axis) if a not in axes)
        whole = Node(Op.REDUCE, (partial,), node.shape, accumulate, (kind, (place,)), node.origin)
        if accumulate is node.dtype:
            return whole
        return Node(Op.MAP, (whole,), node.shape, node.dtype, "cast", node.origin)
    return node


def _divisor(n: int, limit: int) -> int:
    """The largest divisor of n up to `limit`."""
    return max((d for d in range(1, min(n, limit) + 1) if n % d == 0), default=1)
