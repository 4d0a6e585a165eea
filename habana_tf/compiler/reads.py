"""What a kernel reads: the kept nodes its values lead to."""

from __future__ import annotations

from collections.abc import Iterable

from . import extent as ext
from .extent import Extent
from .ir import Node, Op
from .keep import ALWAYS_KEPT
from .kernels import ContractKernel, Kernel, LoopKernel, SingleKernel
from .operands import View
from .views import Index, in_memory_order, source_of


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
        if node in kept and (node not in own or node.op in ALWAYS_KEPT):
            if not (isinstance(kernel, ContractKernel) and node is kernel.node):
                reads.setdefault(node, set()).add(index)
            continue
        match node.op:
            case Op.CONST | Op.IOTA | Op.EXTENT:
                pass
            case Op.MAP:
                work += 1
                stack.extend((s, index) for s in node.src)
            case Op.GATHER:
                work += 2
                reads.setdefault(node.src[0], set()).add(())
                stack.extend((c, index[: c.rank]) for c in node.src[1:])
            case Op.RESHAPE if node.src[0] in kept and in_memory_order(node):
                reads.setdefault(node.src[0], set()).add(())
            case _:
                source, inner, _ = source_of(node, index)
                stack.append((source, inner))
                if node.op is Op.PAD:
                    work += 2
                    stack.append((node.src[1], ()))
    return reads, work
