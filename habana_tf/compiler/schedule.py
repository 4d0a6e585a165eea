"""The schedule of a program: kept values, kernels, and their order.

    keep     every node is either *kept* (has a buffer) or *inlined* (recomputed wherever it is read)
    kernels  one kernel per kept node that must be computed
    fuse     kernels over one domain become one; elementwise work behind a contraction becomes its epilogue
    order    topological, in the order of the program

Invariant: the result depends on the program alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import extent as ext
from .extent import Extent
from .fuse import drop_unread, fuse
from .ir import Node, Op, Program
from .keep import keep
from .kernels import ContractKernel, Kernel, LoopKernel, SingleKernel, Store, store
from .operands import View


@dataclass
class Schedule:
    """kernels in launch order; kept: the nodes with a buffer; operands: contraction operands as strided views."""

    kernels: list[Kernel]
    kept: set[Node]
    operands: dict[Node, tuple[View, View]]


def schedule(program: Program) -> Schedule:
    """The kernels of a program (after `rewrite`). Raises Unfit when a primitive has no kernel."""
    nodes = program.nodes()
    operands: dict[Node, tuple[View, View]] = {}
    kept = keep(program, nodes, operands)
    groups = fuse(_kernels(nodes, kept), kept, operands)
    drop_unread(groups, set(program.outputs), kept)
    return Schedule([g.kernel for g in groups], kept, operands)


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
            case Op.RANDOM | Op.SCAN | Op.SORT:
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
