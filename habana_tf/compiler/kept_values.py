"""Chooses which values are materialized in memory; all others are recomputed in the kernels that use them.

Kept are results of kernels of their own (reductions, contractions...), outputs, operands of contractions and gathers,
random states, sources of reshapes across symbolic sizes, and elementwise values that are cheaper to load than to
recompute: `_worth_memory` compares memory traffic with operations. So x - mean(x) is recomputed by each user, and a
square root per channel is computed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from habana_tf.compiler.contraction import StridedView
from habana_tf.compiler.contraction_operands import operands as operands_of
from habana_tf.compiler.contraction_operands import padding_to_copy
from habana_tf.compiler.costs import (
    CACHE_BYTES,
    CACHED_BYTES,
    CHEAP_OPERATIONS,
    EPILOGUE_OPERATIONS,
    KERNEL_OPERATIONS,
    MEMORY_BYTES,
    MOST_OPERATIONS,
    MOST_SOURCES,
    MOST_VIEWS,
    OFTEN_READ,
)
from habana_tf.compiler.primitive_classes import primitive
from habana_tf.compiler.primitive_families import Inline
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import nominal
from habana_tf.ir.primitives import Node, Op, Program, users_of


@dataclass(frozen=True)
class _Formula:
    """The cost of recomputing a value: operations per element, the tensors it reads, the longest chain of views, and
    whether one of them permutes axes."""

    operations: int
    sources: frozenset[Node]
    views: int
    permuted: bool


def keep(
    program: Program,
    nodes: list[Node],
    operands: dict[Node, tuple[StridedView, StridedView]],
    cached: bool = False,
    rounding: int = 1,
) -> set[Node]:
    """The kept nodes of a program. operands: receives the strided views of each contraction's operands. cached: the
    program's working set fits into the core's cache. rounding: see `costs.bf16_rounding`."""
    kept = {n for n in nodes if primitive(n).in_memory(n)}
    kept.update(program.outputs)
    users = users_of(nodes)
    copied = padding_to_copy([n for n in nodes if n.op is Op.CONTRACT], kept)
    for n in nodes:  # required in memory by a user
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
                what.cost(n, sum(m.operations for m in made), rounding),
                frozenset().union(*(m.sources for m in made)),
                max((m.views for m in made), default=0) + what.is_view,
                n.op is Op.PERMUTE or any(m.permuted for m in made),
            )
            stored = f.views > MOST_VIEWS or _worth_memory(n, f, readings[n], users[n], cached)
            if (
                stored
                or _written_over(n, f, users[n])
                or rounding > 1
                and _replaces_product(n, f, users, program.outputs)
            ):
                kept.add(n)
        if n in kept:
            formulas[n] = _Formula(1, frozenset([n]), 0, False)
    return kept


def _worth_memory(n: Node, f: _Formula, readings: float, users: list[Node], cached: bool) -> bool:
    """Whether storing and loading a value is faster than recomputing it at each use.

    Stored, its bytes are moved twice (a store first fetches the cache line) and once per use; recomputed, each use but
    the first repeats the operations and reads the sources.
    """
    again = readings - 1
    if again <= 0 or f.operations <= CHEAP_OPERATIONS and not _pays_a_kernel(n, f, again):
        return False
    if len(f.sources) > MOST_SOURCES or f.operations > MOST_OPERATIONS:
        return True
    if any(u.op is Op.WINDOW and primitive(u).repeats(u) for u in users):
        return True  # overlapping windows: the number of uses per element is only an estimate
    size = nominal(n.numel) * n.dtype.bytes
    sources = sum(s.dtype.bytes * min(nominal(s.numel), nominal(n.numel)) for s in f.sources)
    moved = (2 + readings) * size - again * sources
    return again * nominal(n.numel) * f.operations > moved / (
        CACHE_BYTES if cached or size <= CACHED_BYTES else MEMORY_BYTES
    )


def _replaces_product(n: Node, f: _Formula, users: Mapping[Node, list[Node]], outputs: list[Node]) -> bool:
    """Whether a value in bf16 can be stored instead of the product's result that it is computed from, in its epilogue:
    an activation that is pooled and has a gradient. No more bytes are moved, and it is rounded by storing it; computed
    again, it is rounded by each comparison. One of its readers has to be at another index, so that it is read from
    memory anyway."""
    if n.dtype is not DType.BF16 or len(users[n]) < 2 or not any(_is_view(u) for u in users[n]):
        return False
    large = [s for s in f.sources if nominal(s.numel) >= nominal(n.numel)]
    if len(large) != 1 or f.operations > EPILOGUE_OPERATIONS:
        return False
    at = large[0]
    if at.op is not Op.CONTRACT or at.dtype is not n.dtype or at in outputs:
        return False
    while at is not n and len(users[at]) == 1 and at.shape == n.shape and users[at][0].op is Op.MAP:
        at = users[at][0]
    return at is n


def _written_over(n: Node, f: _Formula, users: list[Node]) -> bool:
    """Whether a value is scattered into the tensor of which it is computed: computed before, in memory of its own, it
    leaves that tensor to be written in place, of which it is a small part."""
    return any(u.op is Op.SCATTER and n is u.src[1] and _unshaped(u.src[0]) in f.sources for u in users)


def _unshaped(node: Node) -> Node:
    while node.op is Op.RESHAPE:
        node = node.src[0]
    return node


def _is_view(node: Node) -> bool:
    what = primitive(node)
    return isinstance(what, Inline) and what.is_view


def _pays_a_kernel(n: Node, f: _Formula, again: float) -> bool:
    """Whether a cheap value is recomputed so often (one per channel, for every pixel) that a kernel of its own pays.
    Not behind a permutation, after which its layout would not suit its users."""
    return again >= OFTEN_READ and not f.permuted and again * nominal(n.numel) * (f.operations - 1) >= KERNEL_OPERATIONS


def _readings(nodes: list[Node], users: Mapping[Node, list[Node]]) -> dict[Node, float]:
    """The number of uses of each element of a node if it is inlined, through views. nodes: sources first."""
    found: dict[Node, float] = {}
    for n in reversed(nodes):
        found[n] = 0
        for u in users.get(n, ()):
            if _is_view(u):
                times = nominal(u.numel) / max(1, nominal(n.numel)) if primitive(u).repeats(u) else 1
                found[n] += times * max(1, found[u])
            else:
                found[n] += 1
    return found
