"""Fuses kernels over one domain: values pass in registers, memory is read once.

An elementwise kernel joins a loop kernel that it follows or shares reads with; behind a contraction it becomes the
epilogue. Legal is what never reads at another index what the kernel itself writes, and never closes a cycle.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

from ..ir import extent as ext
from ..ir.linearity import linear
from ..ir.primitives import Node, Op, Shape
from .body import Body, point
from .body_builder import BodyBuilder, loop
from .primitive_classes import Pass, primitive
from .split_reductions import split
from .view_indices import strides

MAX_STORES = 10
MAX_EPILOGUE = 40
"""Scalar operations in a contraction's epilogue; more makes its code too long."""
TINY = 4096
"""Elements below which unrelated kernels of one domain are fused to save kernel calls."""
CANDIDATES = 12


@dataclass(eq=False)
class Group:
    """A kernel, and what was fused into it. builder: makes values of its body; None where nothing can join it."""

    body: Body
    number: int
    builder: BodyBuilder | None
    shifted: bool = False
    """Whether it stores parts of a whole."""
    before: set[int] = field(default_factory=set)
    ancestors: int = 0


class Fusion:
    """Groups kernels as they come, in an order that can run."""

    def __init__(self, kept: set[Node]) -> None:
        self.kept = kept
        self.groups: list[Group] = []
        self._writers: dict[Node, list[Group]] = {}
        self._by_domain: dict[Shape, list[Group]] = {}

    def add(self, body: Body, builder: BodyBuilder | None) -> None:
        """A kernel by itself."""
        before = {w.number for n in body.reads for w in self._writers.get(n, ())}
        if builder is None:
            before.update(w.number for n in body.outputs for w in self._writers.get(n, ()))
        self._put(Group(body, len(self.groups), builder, before=before, ancestors=self._ancestors(before)))

    def add_pass(self, new: Pass) -> None:
        """A loop, which joins an earlier kernel if it can."""
        builder = BodyBuilder(self.kept, set(new.outputs))
        body = loop(new.domain, new.stores, new.reduces, new.axes, builder)
        before = {w.number for n in body.reads for w in self._writers.get(n, ())}
        shifted = any(any(shift) or primitive(target).in_pieces for _, target, shift in new.stores)
        me = Group(body, len(self.groups), builder, shifted, before, self._ancestors(before))
        host = self._host(me)
        if host is None:
            self._put(me)
            return
        self._merge(host, me, new)
        for n in new.outputs:
            self._writers.setdefault(n, []).append(host)

    def _put(self, me: Group) -> None:
        self.groups.append(me)
        for n in me.body.outputs:
            self._writers.setdefault(n, []).append(me)
        self._by_domain.setdefault(me.body.domain, []).append(me)

    def _ancestors(self, before: set[int]) -> int:
        bits = 0
        for b in before:
            bits |= self.groups[b].ancestors | (1 << b)
        return bits

    def _host(self, me: Group) -> Group | None:
        """The latest group that can take `me` in, or None."""
        for g in reversed(self._by_domain.get(me.body.domain, [])[-CANDIDATES:]):
            bit = 1 << g.number
            if any(b != g.number and self.groups[b].ancestors & bit for b in me.before):
                continue
            if g.builder is not None and _fits(g, me):
                return g
        return None

    def _merge(self, g: Group, me: Group, new: Pass) -> None:
        """Adds a loop to a group: its values are made anew, of those that the group has in registers."""
        assert g.builder is not None
        g.builder.own.update(new.outputs)
        more = loop(new.domain, new.stores, new.reduces, new.axes, g.builder)
        g.body = replace(
            g.body,
            stores=(*g.body.stores, *more.stores),
            reductions=(*g.body.reductions, *more.reductions),
            axes=g.body.axes or more.axes,
            through=more.through,
        )
        g.before |= me.before - {g.number}
        added = me.ancestors & ~(1 << g.number)
        g.ancestors |= added
        bit = 1 << g.number
        for other in self.groups:
            if other.ancestors & bit:
                other.ancestors |= added

    def kernels(self, outputs: set[Node]) -> list[Body]:
        """The fused kernels in an order that can run, without stores that nobody reads: their values only pass through
        registers and need no buffer. outputs: the program's."""
        ordered = _sorted(self.groups)
        read = {n for g in ordered for n in g.body.reads}
        out = []
        for g in ordered:
            unread = {s.target for s in g.body.stores} - read - outputs
            out += split(g.body.without(unread) if unread else g.body)
            self.kept -= {n for n in unread if n.op is not Op.CONTRACT}
        return out


def _fits(g: Group, me: Group) -> bool:
    k, new = g.body, me.body
    if k.is_loop and (g.shifted or me.shifted):
        return False
    index = point(new.domain)
    follows = shares = False
    written = {*k.outputs, k.core} if k.is_contraction else set(k.outputs)
    reduced = {r.node for r in k.reductions}
    for node, offsets in new.reads.items():
        if node in written:
            if node in reduced or primitive(node).in_pieces or offsets != {ext.ravel(index, node.shape)}:
                return False
            follows = True
        elif node in k.reads:
            shares = True
    if any(n in k.reads for n in new.outputs):
        return False
    if k.is_contraction:
        return (
            not new.reductions and follows and len(k.stores) + len(new.stores) <= 4
            and k.work + new.work <= MAX_EPILOGUE and _affine(new)
        )  # fmt: skip
    if len(k.outputs) + len(new.outputs) > MAX_STORES:
        return False
    if k.reductions and new.reductions and k.axes != new.axes:
        return False
    numel = ext.product(new.domain)
    return follows or shares or (isinstance(numel, int) and numel <= TINY)


def _affine(epilogue: Body) -> bool:
    """Whether an epilogue's reads are all linear in the result's axes, and no index decides a value.

    Where the result itself has strides known at run time only, the axes that it walks as one have to be one for what
    is read, too: otherwise there is no code for the product (see `contraction`).
    """
    domain = epilogue.domain
    result, axes = strides(domain), [k for k, n in enumerate(domain) if n != 1]
    joined = [(p, q) for p, q in pairwise(axes) if not isinstance(result[p], int)]
    for offset in {o for offsets in epilogue.reads.values() for o in offsets}:
        found = None if offset is None else linear(offset, epilogue.variables)
        if found is None or not isinstance(found[1], int):
            return False
        steps = found[0]
        if any(steps[p] != ext.mul(steps[q], domain[q]) for p, q in joined):
            return False
    return not any(True for _ in epilogue.conditions())


def _sorted(groups: list[Group]) -> list[Group]:
    """A topological order that stays near the program's."""
    index = {g.number: g for g in groups}
    out: list[Group] = []
    done: set[int] = set()

    for g in groups:
        stack = [g]
        while stack:
            top = stack[-1]
            if top.number in done:
                stack.pop()
                continue
            waiting = [index[b] for b in sorted(top.before) if b not in done]
            if waiting:
                stack.extend(reversed(waiting))
            else:
                done.add(top.number)
                out.append(stack.pop())
    return out
