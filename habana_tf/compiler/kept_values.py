"""Which values are kept in memory: every other one is recomputed in the kernels that read it.

Kept are what has a kernel of its own (reductions, contractions...), what leaves the program, what contractions and
gathers read, random states, what a reshape across symbolic sizes reads, and elementwise values that are quicker to
read than to compute again: `_worth_memory` compares bytes with operations. So a tensor less its mean is computed by
whoever reads it, from the tensor, and a root per channel once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from habana_tf.compiler.contraction import View
from habana_tf.compiler.contraction_operands import operands as operands_of
from habana_tf.compiler.contraction_operands import padding_to_copy
from habana_tf.compiler.costs import (
    CACHE_BYTES,
    CACHED_BYTES,
    CHEAP_OPERATIONS,
    KERNEL_OPERATIONS,
    MEMORY_BYTES,
    MOST_OPERATIONS,
    MOST_SOURCES,
    MOST_VIEWS,
    OFTEN_READ,
)
from habana_tf.compiler.primitive_classes import Inline, primitive
from habana_tf.ir.extent import nominal
from habana_tf.ir.primitives import Node, Op, Program


@dataclass(frozen=True)
class _Formula:
    """How a value that is not kept is computed: operations for one element, the tensors it reads, views between, and
    whether one of these changes the order of axes."""

    operations: int
    sources: frozenset[Node]
    views: int
    turned: bool


def keep(
    program: Program, nodes: list[Node], operands: dict[Node, tuple[View, View]], cached: bool = False
) -> set[Node]:
    """The kept nodes of a program. `operands` gets, for each contraction, its operands as strided views. cached: all
    that it works on is made small enough to stay in the core's cache."""
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
    readings = _readings(nodes, users)
    formulas: dict[Node, _Formula] = {}
    for n in nodes:
        what = primitive(n)
        if isinstance(what, Inline) and n not in kept:
            made = [formulas[s] for s in n.src]
            f = formulas[n] = _Formula(
                what.cost(n, sum(m.operations for m in made)),
                frozenset().union(*(m.sources for m in made)),
                max((m.views for m in made), default=0) + what.is_view,
                n.op is Op.PERMUTE or any(m.turned for m in made),
            )
            if f.views > MOST_VIEWS or _worth_memory(n, f, readings[n], users[n], cached):
                kept.add(n)
        if n in kept:
            formulas[n] = _Formula(1, frozenset([n]), 0, False)
    return kept


def _worth_memory(n: Node, f: _Formula, readings: float, users: list[Node], cached: bool) -> bool:
    """Whether to write a value and read it is quicker than to compute it wherever it is read.

    Written, it is moved twice (a line of memory is read before it is written) and once for each reader; computed again,
    each reader but the first repeats its operations and reads what it is made of.
    """
    again = readings - 1
    if again <= 0 or f.operations <= CHEAP_OPERATIONS and not _pays_a_kernel(n, f, again):
        return False
    if len(f.sources) > MOST_SOURCES or f.operations > MOST_OPERATIONS:
        return True
    if any(u.op is Op.WINDOW and primitive(u).repeats(u) for u in users):
        return True  # of elements that windows share, a guess of how often is not worth its risk
    size = _bytes(n)
    sources = sum(min(_bytes(s), nominal(n.numel) * s.dtype.bytes) for s in f.sources)
    moved = (2 + readings) * size - again * sources
    return again * nominal(n.numel) * f.operations > moved / (
        CACHE_BYTES if cached or size <= CACHED_BYTES else MEMORY_BYTES
    )


def _pays_a_kernel(n: Node, f: _Formula, again: float) -> bool:
    """Whether a few operations are repeated so often (for every row of images a channel's) that a kernel that makes
    them once is nothing beside it. What was turned round would lie in memory as its readers do not want it."""
    return again >= OFTEN_READ and not f.turned and again * nominal(n.numel) * (f.operations - 1) >= KERNEL_OPERATIONS


def _bytes(n: Node) -> int:
    return nominal(n.numel) * n.dtype.bytes


def _readings(nodes: list[Node], users: Mapping[Node, list[Node]]) -> dict[Node, float]:
    """How often each element of a node is read if it is inlined, looking through views. nodes: sources first."""
    found: dict[Node, float] = {}
    for n in reversed(nodes):
        found[n] = 0
        for u in users.get(n, ()):
            if isinstance(what := primitive(u), Inline) and what.is_view:
                times = nominal(u.numel) / max(1, nominal(n.numel)) if what.repeats(u) else 1
                found[n] += times * max(1, found[u])
            else:
                found[n] += 1
    return found
