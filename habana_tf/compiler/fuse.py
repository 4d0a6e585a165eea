"""Fuses kernels over one domain: values pass in registers, memory is read once.

An elementwise kernel joins a loop kernel that it follows or shares reads with; behind a contraction it becomes the
epilogue. Legal is what never reads at another index what the kernel itself writes, and never closes a cycle.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from . import extent as ext
from .extent import Extent
from .ir import VIEWS, Node, Op
from .kernels import ContractKernel, Kernel, LoopKernel, SingleKernel
from .operands import View
from .reads import domain_index, reads_of
from .views import Index, strides

MAX_STORES = 10
MAX_EPILOGUE = 40
"""Scalar operations in a contraction's epilogue; more makes its code too long."""
TINY = 4096
"""Elements below which unrelated kernels of one domain are fused to save launches."""
CANDIDATES = 12


@dataclass(eq=False)
class Group:
    kernel: Kernel
    number: int
    reads: dict[Node, set[Index]]
    before: set[int] = field(default_factory=set)
    ancestors: int = 0
    size: int = 0


def fuse(kernels: list[Kernel], kept: set[Node], operands: dict[Node, tuple[View, View]]) -> list[Group]:
    """The fused kernels in an order that can run; `kernels` are in an order that can run."""
    groups: list[Group] = []
    writers: dict[Node, list[Group]] = {}
    by_domain: dict[tuple[Extent, ...], list[Group]] = {}
    index: dict[int, Group] = {}
    for number, kernel in enumerate(kernels):
        reads, size = reads_of(kernel, kept, operands, set(kernel.outputs))
        me = Group(kernel, number, reads, size=size)
        for n in reads:
            me.before.update(w.number for w in writers.get(n, ()))
        if isinstance(kernel, SingleKernel):
            me.before.update(w.number for n in kernel.outputs for w in writers.get(n, ()))
        me.ancestors = _ancestors(me.before, index)
        host = _host(me, by_domain, index) if isinstance(kernel, LoopKernel) else None
        if host is not None:
            _merge(host, me, groups, kept, operands)
            for n in kernel.outputs:
                writers.setdefault(n, []).append(host)
            continue
        groups.append(me)
        index[number] = me
        for n in kernel.outputs:
            writers.setdefault(n, []).append(me)
        domain = kernel.domain if isinstance(kernel, LoopKernel) else kernel.node.shape
        by_domain.setdefault(tuple(domain), []).append(me)
    return _sorted(groups)


def _ancestors(before: set[int], index: dict[int, Group]) -> int:
    bits = 0
    for b in before:
        bits |= index[b].ancestors | (1 << b)
    return bits


def _host(me: Group, by_domain: dict[tuple[Extent, ...], list[Group]], index: dict[int, Group]) -> Group | None:
    """The latest group that can take `me` in, or None."""
    assert isinstance(me.kernel, LoopKernel)
    for g in reversed(by_domain.get(tuple(me.kernel.domain), [])[-CANDIDATES:]):
        bit = 1 << g.number
        if any(b != g.number and index[b].ancestors & bit for b in me.before):
            continue
        if _fits(g, me):
            return g
    return None


def _fits(g: Group, me: Group) -> bool:
    k, new = g.kernel, me.kernel
    assert isinstance(new, LoopKernel)
    index = domain_index(new.domain)
    follows = shares = False
    written = set(k.outputs) | ({k.node} if isinstance(k, ContractKernel) else set())
    for node, at in me.reads.items():
        if node in written:
            if isinstance(k, LoopKernel) and node in k.reduces or node.op is Op.CONCAT or at != {index}:
                return False
            follows = True
        elif node in g.reads:
            shares = True
    if any(n in g.reads for n in new.outputs):
        return False
    if isinstance(k, ContractKernel):
        return (
            not new.reduces and follows and len(k.stores) + len(new.stores) <= 4
            and g.size + me.size <= MAX_EPILOGUE and _affine(me, new)
        )  # fmt: skip
    if not isinstance(k, LoopKernel) or len(k.outputs) + len(new.outputs) > MAX_STORES:
        return False
    if k.reduces and new.reduces and k.axes != new.axes:
        return False
    if any(r.op is Op.CONCAT or any(s.shift) for s in (*k.stores, *new.stores) for r in (s.target,)):
        return False
    numel = ext.product(new.domain)
    return follows or shares or (isinstance(numel, int) and numel <= TINY)


def _affine(me: Group, kernel: LoopKernel) -> bool:
    """Whether an epilogue's reads are all linear in the result's axes.

    Where the result itself has strides known at run time only, the axes that it walks as one have to be one for what
    is read, too: otherwise there is no code for the product (see `contract_spec`).
    """
    variables = [ext.Var(f"x{k}", n) for k, n in enumerate(kernel.domain)]
    result, axes = strides(tuple(kernel.domain)), [k for k, n in enumerate(kernel.domain) if n != 1]
    joined = [(p, q) for p, q in pairwise(axes) if not isinstance(result[p], int)]
    for node, indices in me.reads.items():
        for index in indices:
            if len(index) != node.rank:
                return False
            found = ext.linear(ext.ravel(index, node.shape), variables)
            if found is None or not isinstance(found[1], int):
                return False
            steps = found[0]
            if any(steps[p] != ext.mul(steps[q], kernel.domain[q]) for p, q in joined):
                return False
    return not _has_positions(kernel)


def _has_positions(kernel: LoopKernel) -> bool:
    """Whether the kernel uses indices as values or conditions (iota, pad, gather)."""
    stack = [s.value for s in kernel.stores]
    seen: set[Node] = set()
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        if n.op in (Op.IOTA, Op.PAD, Op.GATHER):
            return True
        if n.op is Op.MAP or n.op in VIEWS and n.op is not Op.CONCAT:
            stack.extend(n.src)
    return False


def _merge(g: Group, me: Group, groups: list[Group], kept: set[Node], operands: dict[Node, tuple[View, View]]) -> None:
    new = me.kernel
    assert isinstance(new, LoopKernel) and not isinstance(g.kernel, SingleKernel)
    g.kernel.stores.extend(new.stores)
    if isinstance(g.kernel, LoopKernel):
        g.kernel.reduces.extend(new.reduces)
        g.kernel.axes = g.kernel.axes or new.axes
    g.reads, g.size = reads_of(g.kernel, kept, operands, set(g.kernel.outputs))
    g.before |= me.before - {g.number}
    added = me.ancestors & ~(1 << g.number)
    g.ancestors |= added
    bit = 1 << g.number
    for other in groups:
        if other.ancestors & bit:
            other.ancestors |= added


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


def drop_unread(groups: list[Group], outputs: set[Node], kept: set[Node]) -> None:
    """Removes stores that nobody reads: their values only pass through registers and need no buffer."""
    read = {n for g in groups for n in g.reads}
    for g in groups:
        if isinstance(g.kernel, SingleKernel):
            continue
        unread = {s.target for s in g.kernel.stores} - read - outputs
        g.kernel.stores[:] = [s for s in g.kernel.stores if s.target not in unread]
        kept -= {n for n in unread if n.op is not Op.CONTRACT}
