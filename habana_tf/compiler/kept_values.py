"""Which values are kept in memory: every other one is recomputed in the kernels that read it.

Kept are what has a kernel of its own (reductions, contractions...), what leaves the program, what contractions and
gathers read, random states, what a reshape across symbolic sizes reads, and elementwise values that are dear and read
more than once.
"""

from __future__ import annotations

from ..ir.primitives import Node, Op, Program
from .contraction import View
from .contraction_operands import operands as operands_of
from .contraction_operands import padding_to_copy
from .primitive_classes import Inline, primitive

CHEAP = 3
"""Scalar operations up to which a value read several times is computed again rather than kept."""
MOST_VIEWS = 32
"""Views between a value and the memory it is read from: each makes the index longer, and the code."""


def keep(program: Program, nodes: list[Node], operands: dict[Node, tuple[View, View]]) -> set[Node]:
    """The kept nodes of a program. `operands` gets, for each contraction, its operands as strided views."""
    kept = {n for n in nodes if primitive(n).in_memory(n)}
    kept.update(program.outputs)
    users: dict[Node, list[Node]] = {}
    for n in nodes:
        for s in n.src:
            users.setdefault(s, []).append(n)
    copied = padding_to_copy([n for n in nodes if n.op is Op.CONTRACT], kept)
    for n in nodes:  # what must be in memory for its reader's sake
        if n.op is Op.CONTRACT:
            operands[n] = operands_of(n, kept, copied)
            kept.update(v.base for v in operands[n])
        else:
            kept.update(primitive(n).needs_in_memory(n))
    reads = _reads(nodes, users)
    cost: dict[Node, int] = {}
    views: dict[Node, int] = {}
    for n in nodes:
        what = primitive(n)
        if isinstance(what, Inline) and n not in kept:
            cost[n] = what.cost(n, sum(cost[s] for s in n.src))
            views[n] = max((views[s] for s in n.src), default=0) + what.is_view
            dear = cost[n] > CHEAP
            if views[n] > MOST_VIEWS or dear and (reads[n] > 1 or any(primitive(u).repeats(u) for u in users[n])):
                kept.add(n)
        if n in kept:
            cost[n], views[n] = 1, 0
    return kept


def _reads(nodes: list[Node], users: dict[Node, list[Node]]) -> dict[Node, int]:
    """How many places read each node if it is inlined, looking through views. nodes: sources first."""
    reads: dict[Node, int] = {}
    for n in reversed(nodes):
        reads[n] = sum(max(1, reads[u]) if primitive(u).one_to_one else 1 for u in users.get(n, ()))
    return reads
