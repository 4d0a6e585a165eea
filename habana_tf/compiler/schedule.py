"""Decides which values are kept in memory and which kernels compute them.

    keep     every node becomes either *kept* (has a buffer) or *inlined* (recomputed wherever it is read)
    kernels  one kernel per kept node that must be computed
    fuse     kernels over one domain become one: values pass in registers, memory is read once; an elementwise
             kernel behind a contraction becomes its epilogue
    order    topological, in the order of the program

Invariants: a fused kernel never reads what it writes at another index; fusing never makes a cycle; the result
depends on the program alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from . import extent as ext
from .extent import Extent
from .ir import VIEWS, Node, Op, Program
from .kernels import ContractKernel, Kernel, LoopKernel, SingleKernel, Store, store
from .views import Index, Unfit, source_of

_ALWAYS = frozenset({Op.INPUT, Op.RANDOM, Op.SCATTER, Op.SCAN, Op.SORT, Op.REDUCE, Op.CONTRACT, Op.CONCAT})
_DEAR = frozenset(
    "exp expm1 log log1p sin cos tan asin acos atan sinh cosh asinh acosh atanh tanh sigmoid erf erfc lgamma pow atan2 "
    "div floordiv floormod truncmod sqrt rsqrt".split()
)
CHEAP = 3
"""Scalar operations up to which a value read several times is computed again rather than kept."""
MAX_STORES = 10
MAX_EPILOGUE = 40
"""Scalar operations in a contraction's epilogue; more makes its code too long."""
TINY = 4096
"""Elements below which unrelated kernels of one domain are fused to save launches."""
CANDIDATES = 12


@dataclass
class Schedule:
    """kernels in launch order; kept: the nodes with a buffer; operands: contraction operands as strided views."""

    kernels: list[Kernel]
    kept: set[Node]
    operands: dict[Node, tuple[View, View]]


@dataclass(frozen=True)
class View:
    """A tensor read with constant strides: element (i, j, ...) is at offset + i * strides[0] + ... of `base`."""

    base: Node
    strides: tuple[int, ...]
    offset: int


def schedule(program: Program) -> Schedule:
    """The kernels of a program (after `rewrite`). Raises Unfit when a primitive has no kernel."""
    nodes = program.nodes()
    operands: dict[Node, tuple[View, View]] = {}
    kept = _keep(program, nodes, operands)
    groups = _fuse(_kernels(nodes, kept), kept, operands)
    _drop_unread(groups, set(program.outputs), kept)
    return Schedule([g.kernel for g in groups], kept, operands)


# -- keep ---------------------------------------------------------------------------------------------------


def _keep(program: Program, nodes: list[Node], operands: dict[Node, tuple[View, View]]) -> set[Node]:
    kept = {n for n in nodes if n.op in _ALWAYS or (n.op is Op.CONST and isinstance(n.arg, bytes))}
    kept.update(program.outputs)
    users: dict[Node, list[Node]] = {}
    for n in nodes:
        for s in n.src:
            users.setdefault(s, []).append(n)
    for n in nodes:  # what must be in memory for its reader's sake
        if n.op is Op.SORT:
            raise Unfit("sort has no kernel")
        if n.op is Op.CONTRACT:
            a, b = (_operand(s, kept) for s in n.src)
            kept.update((a.base, b.base))
            operands[n] = (a, b)
        elif n.op is Op.GATHER:
            kept.add(n.src[0])
    cost: dict[Node, int] = {}
    for n in nodes:
        if n in kept:
            cost[n] = 1
            continue
        cost[n] = own = _cost(n, cost)
        if n.op is Op.CONST or own <= CHEAP:
            continue
        repeated = any(_repeats(u, n) for u in users.get(n, ()))
        if repeated or _reads(n, users) > 1:
            kept.add(n)
            cost[n] = 1
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


def _reads(n: Node, users: dict[Node, list[Node]]) -> int:
    """How many places read an inlined node, looking through views."""
    count = 0
    for u in users.get(n, ()):
        if u.op in (Op.RESHAPE, Op.PERMUTE):
            count += max(1, _reads(u, users))
        else:
            count += 1
    return count


def _operand(node: Node, kept: set[Node]) -> View:
    """The strided view that a contraction reads; its base has to be kept."""
    base = node
    while base not in kept and base.op in VIEWS and base.op not in (Op.PAD, Op.CONCAT):
        base = base.src[0]
    return _strided(node, base) or _strided(node, node)  # type: ignore[return-value]  # the second always fits


def _strided(node: Node, base: Node) -> View | None:
    variables = [ext.Var(f"x{k}", n) for k, n in enumerate(node.shape)]
    index: Index = tuple(ext.of(v) for v in variables)
    at = node
    try:
        while at is not base:
            at, index, _ = source_of(at, index)
    except Unfit:
        return None
    offset = ext.ravel(index, base.shape)
    steps = [ext.stride_of(offset, v) for v in variables]
    if any(s is None for s in steps):
        return None
    rest = offset if isinstance(offset, int) else offset.const
    return View(base, tuple(s for s in steps if s is not None), rest)


# -- kernels ------------------------------------------------------------------------------------------------


def _kernels(nodes: list[Node], kept: set[Node]) -> list[Kernel]:
    out: list[Kernel] = []
    for n in nodes:
        if n not in kept or n.op in (Op.INPUT, Op.CONST):
            continue
        match n.op:
            case Op.REDUCE:
                out.append(LoopKernel(n.src[0].shape, n.arg[1], reduces=[n]))
            case Op.CONTRACT:
                out.append(ContractKernel(n, [store(n)]))
            case Op.RANDOM | Op.SCAN:
                out.append(SingleKernel(n))
            case Op.SCATTER:
                out.append(LoopKernel(n.shape, stores=[Store(n.src[0], n, (0,) * n.rank)]))
                out.append(SingleKernel(n))
            case Op.CONCAT:
                start: Extent = 0
                for part in n.src:
                    shift = tuple(start if a == n.arg else 0 for a in range(n.rank))
                    out.append(LoopKernel(part.shape, stores=[Store(part, n, shift)]))
                    start = ext.add(start, part.shape[n.arg])
            case _:
                out.append(LoopKernel(n.shape, stores=[store(n)]))
    return out


def roots(kernel: Kernel) -> list[tuple[Node, Index]]:
    """The nodes a kernel evaluates, each with the index of the kernel's domain."""
    match kernel:
        case LoopKernel():
            index = domain_index(kernel.domain)
            return [(s.value, index) for s in kernel.stores] + [(r.src[0], index) for r in kernel.reduces]
        case ContractKernel():
            index = domain_index(kernel.node.shape)
            return [(s.value, index) for s in kernel.stores]
        case SingleKernel():
            skip = 1 if kernel.node.op is Op.SCATTER else 0
            return [(s, domain_index(s.shape)) for s in kernel.node.src[skip:]]


def domain_index(domain: Iterable[Extent]) -> Index:
    return tuple(ext.var(f"x{k}", n) for k, n in enumerate(domain))


# -- fuse ---------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Group:
    kernel: Kernel
    number: int
    reads: dict[Node, set[Index]]
    before: set[int] = field(default_factory=set)
    ancestors: int = 0
    size: int = 0


def reads_of(
    kernel: Kernel, kept: set[Node], operands: dict[Node, tuple[View, View]], own: set[Node]
) -> tuple[dict[Node, set[Index]], int]:
    """The kept nodes a kernel reads (each with the indices it is read at) and its scalar operations.

    own: nodes that the kernel computes itself; they are looked through.
    """
    reads: dict[Node, set[Index]] = {}
    if isinstance(kernel, ContractKernel):
        for v in operands[kernel.node]:
            reads.setdefault(v.base, set())
    if isinstance(kernel, SingleKernel) and kernel.node.op is Op.SCATTER:
        reads.setdefault(kernel.node, set())
    work = 0
    seen: set[tuple[Node, Index]] = set()
    stack = roots(kernel)
    while stack:
        item = stack.pop()
        if item in seen:
            continue
        seen.add(item)
        node, index = item
        if node in kept and (node not in own or node.op in _ALWAYS):
            if not (isinstance(kernel, ContractKernel) and node is kernel.node):
                reads.setdefault(node, set()).add(index)
            continue
        match node.op:
            case Op.CONST | Op.IOTA:
                pass
            case Op.MAP:
                work += 1
                stack.extend((s, index) for s in node.src)
            case Op.GATHER:
                work += 2
                reads.setdefault(node.src[0], set()).add(())
                stack.extend((c, index[: c.rank]) for c in node.src[1:])
            case _:
                source, inner, _ = source_of(node, index)
                stack.append((source, inner))
                if node.op is Op.PAD:
                    work += 2
                    stack.append((node.src[1], ()))
    return reads, work


def _fuse(kernels: list[Kernel], kept: set[Node], operands: dict[Node, tuple[View, View]]) -> list[_Group]:
    groups: list[_Group] = []
    writers: dict[Node, list[_Group]] = {}
    by_domain: dict[tuple[Extent, ...], list[_Group]] = {}
    index: dict[int, _Group] = {}
    for number, kernel in enumerate(kernels):
        reads, size = reads_of(kernel, kept, operands, set(kernel.outputs))
        me = _Group(kernel, number, reads, size=size)
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


def _ancestors(before: set[int], index: dict[int, _Group]) -> int:
    bits = 0
    for b in before:
        bits |= index[b].ancestors | (1 << b)
    return bits


def _host(me: _Group, by_domain: dict[tuple[Extent, ...], list[_Group]], index: dict[int, _Group]) -> _Group | None:
    """The latest group that can take `me` in, or None."""
    assert isinstance(me.kernel, LoopKernel)
    for g in reversed(by_domain.get(tuple(me.kernel.domain), [])[-CANDIDATES:]):
        bit = 1 << g.number
        if any(b != g.number and index[b].ancestors & bit for b in me.before):
            continue
        if _fits(g, me):
            return g
    return None


def _fits(g: _Group, me: _Group) -> bool:
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


def _affine(me: _Group, kernel: LoopKernel) -> bool:
    """Whether an epilogue's reads are all linear in the result's axes."""
    variables = [ext.Var(f"x{k}", n) for k, n in enumerate(kernel.domain)]
    for node, indices in me.reads.items():
        for index in indices:
            if len(index) != node.rank:
                return False
            offset = ext.ravel(index, node.shape)
            if any(ext.stride_of(offset, v) is None for v in variables):
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


def _merge(
    g: _Group, me: _Group, groups: list[_Group], kept: set[Node], operands: dict[Node, tuple[View, View]]
) -> None:
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


def _sorted(groups: list[_Group]) -> list[_Group]:
    """A topological order that stays near the program's."""
    index = {g.number: g for g in groups}
    out: list[_Group] = []
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


def _drop_unread(groups: list[_Group], outputs: set[Node], kept: set[Node]) -> None:
    """Removes stores that nobody reads: their values only pass through registers and need no buffer."""
    read = {n for g in groups for n in g.reads}
    for g in groups:
        if isinstance(g.kernel, SingleKernel):
            continue
        unread = {s.target for s in g.kernel.stores} - read - outputs
        g.kernel.stores[:] = [s for s in g.kernel.stores if s.target not in unread]
        kept -= {n for n in unread if n.op is not Op.CONTRACT}
