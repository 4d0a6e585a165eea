"""The schedule of a program: kept values, kernels, and their order.

    keep     every node is either *kept* (has a buffer) or *inlined* (recomputed wherever it is read)
    kernels  one kernel per kept node that must be computed
    fuse     kernels over one domain become one; elementwise work behind a contraction becomes its epilogue
    order    topological, in the order of the program

Invariant: the result depends on the program alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.primitives import Node, Op, Program
from .body import Body
from .body_builder import alone, contraction
from .contraction import View
from .fuse import Fusion
from .kept_values import keep
from .primitive_classes import OwnKernel, primitive


@dataclass
class Schedule:
    """kernels in the order of their calls; kept: the nodes with a buffer."""

    kernels: list[Body]
    kept: set[Node]


def schedule(program: Program) -> Schedule:
    """The kernels of a program (after `rewrite`). Raises Unfit when a value cannot be told at a point."""
    nodes = program.nodes()
    operands: dict[Node, tuple[View, View]] = {}
    kept = keep(program, nodes, operands)
    fusion = Fusion(kept)
    for n in nodes:
        if n in kept:
            what = primitive(n)
            for loop in what.passes(n):
                fusion.add_pass(loop)
            if n.op is Op.CONTRACT:
                fusion.add(*contraction(n, operands[n], kept))
            elif isinstance(what, OwnKernel):
                fusion.add(alone(n, what, kept), None)
    return Schedule(fusion.kernels(set(program.outputs)), kept)
