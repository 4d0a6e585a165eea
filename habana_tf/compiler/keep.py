"""Which values are kept in memory: every other one is recomputed in the kernels that read it.

Kept are what has a kernel of its own (reductions, contractions...), what leaves the program, what contractions and
gathers read, random states, what a reshape across symbolic sizes reads, and elementwise values that are dear and read
more than once.
"""

from __future__ import annotations

from .ir import VIEWS, Node, Op, Program
from .operands import View, padding_to_copy
from .operands import operands as operands_of
from .views import in_memory_order

ALWAYS_KEPT = frozenset({Op.INPUT, Op.RANDOM, Op.SCATTER, Op.SCAN, Op.SORT, Op.REDUCE, Op.CONTRACT, Op.CONCAT})
_DEAR = frozenset(
    "exp expm1 log log1p sin cos tan asin acos atan sinh cosh asinh acosh atanh tanh sigmoid erf erfc lgamma pow atan2 "
    "div floordiv floormod truncmod sqrt rsqrt".split()
)
CHEAP = 3
"""Scalar operations up to which a value read several times is computed again rather than kept."""
MOST_VIEWS = 32
"""Views between a value and the memory it is read from: each makes the index longer, and the code."""


def keep(program: Program, nodes: list[Node], operands: dict[Node, tuple[View, View]]) -> set[Node]:
    """The kept nodes of a program. `operands` gets, for each contraction, its operands as strided views."""
    kept = {n for n in nodes if n.op in ALWAYS_KEPT or (n.op is Op.CONST and isinstance(n.arg, bytes))}
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
        elif n.op in (Op.GATHER, Op.RANDOM) or n.op is Op.RESHAPE and in_memory_order(n):
            kept.add(n.src[0])
    reads = _reads(nodes, users)
    cost: dict[Node, int] = {}
    views: dict[Node, int] = {}
    for n in nodes:
        if n not in kept:
            cost[n] = own = _cost(n, cost)
            views[n] = max((views[s] for s in n.src), default=0) + (n.op in VIEWS)
            dear = n.op is not Op.CONST and own > CHEAP
            if views[n] > MOST_VIEWS or dear and (reads[n] > 1 or any(_repeats(u, n) for u in users.get(n, ()))):
                kept.add(n)
        if n in kept:
            cost[n], views[n] = 1, 0
    return kept


def _cost(n: Node, cost: dict[Node, int]) -> int:
    """Scalar operations for one element of an inlined node."""
    total = sum(cost[s] for s in n.src)
    if n.op is Op.MAP:
        return total + (8 if n.arg in _DEAR else 1)
    if n.op in (Op.GATHER, Op.PAD):
        return total + 2
    return max(total, 1) if n.op in VIEWS else total


def _repeats(user: Node, n: Node) -> bool:
    """Whether a view reads elements of `n` more than once."""
    if user.op is Op.EXPAND:
        return True
    if user.op is Op.WINDOW:
        return any(k > s for k, s in zip(user.arg[1], user.arg[2], strict=True))
    return False


def _reads(nodes: list[Node], users: dict[Node, list[Node]]) -> dict[Node, int]:
    """How many places read each node if it is inlined, looking through views. nodes: sources first."""
    reads: dict[Node, int] = {}
    for n in reversed(nodes):
        reads[n] = sum(max(1, reads[u]) if u.op in (Op.RESHAPE, Op.PERMUTE) else 1 for u in users.get(n, ()))
    return reads
