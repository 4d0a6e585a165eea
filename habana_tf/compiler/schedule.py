"""The schedule of a program: kept values, kernels, and their order.

    keep     every node is either *kept* (has a buffer) or *inlined* (recomputed wherever it is read)
    kernels  one kernel per kept node that must be computed
    fuse     kernels over one domain become one; elementwise work behind a contraction becomes its epilogue
    order    topological, in the order of the program

Invariant: the result depends on the program alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from habana_tf.compiler.body import Body
from habana_tf.compiler.body_builder import alone, contraction
from habana_tf.compiler.contraction import View
from habana_tf.compiler.costs import COPIED_TRIPS
from habana_tf.compiler.fuse import Fusion
from habana_tf.compiler.in_place import needed_behind, overwrites
from habana_tf.compiler.kept_values import keep
from habana_tf.compiler.primitive_classes import OwnKernel, primitive
from habana_tf.compiler.rewrite import rewrite
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Custom, Loop, Node, Op, Program, beside


@dataclass
class Schedule:
    """kernels in the order of their calls; kept: the nodes with a buffer."""

    kernels: list[Body]
    kept: set[Node]

    def flat(self) -> Iterator[Body]:
        """The kernels with those of loops in the place of the loops."""
        for kernel in self.kernels:
            if isinstance(kernel, Repeated):
                yield from kernel.plan.flat()
            else:
                yield kernel


@dataclass(frozen=True, eq=False)
class Repeated(Body):
    """A loop: the kernels of its body, made in every iteration.

    sources: what it is given, in the order of the inputs of `program`, its body after `rewrite`; results: its outputs
    that are in the schedule, by number.
    """

    loop: Loop = field(kw_only=True)
    program: Program = field(kw_only=True)
    plan: Schedule = field(kw_only=True)
    sources: tuple[Node, ...] = ()
    results: dict[int, Node] = field(default_factory=dict)

    @property
    def outputs(self) -> list[Node]:
        return list(self.results.values())

    @property
    def reads(self) -> dict[Node, set[Extent | None]]:
        return {n: {None} for n in self.sources}


@dataclass(frozen=True, eq=False)
class Foreign(Body):
    """A kernel in C, the core's. results: its outputs that are in the schedule, by number."""

    results: dict[int, Node] = field(kw_only=True)

    @property
    def spec(self) -> Custom:
        assert self.core is not None
        found: Custom = self.core.arg[0]
        return found

    @property
    def outputs(self) -> list[Node]:
        return list(self.results.values())

    @property
    def reads(self) -> dict[Node, set[Extent | None]]:
        return {n: {None} for n in self.core.src} if self.core is not None else {}


def _foreign(node: Node, nodes: list[Node]) -> Foreign:
    results = {n.arg[1]: n for n in nodes if beside(n, node)}
    return Foreign((), core=node, results=results)


def _mark_steady(plan: Schedule, shared: set[Node]) -> None:
    """Says of the products of a loop which of their operands all iterations share."""
    for k, kernel in enumerate(plan.kernels):
        steady = tuple(v.base in shared for v in kernel.operands)
        if any(steady):
            plan.kernels[k] = replace(kernel, steady=steady)


def _mark_overwritten(plan: Schedule, updates: dict[Node, Node]) -> None:
    """Says of the kernels that make new values of variables which old ones they need behind these."""
    for k, kernel in enumerate(plan.kernels):
        both = ((old, updates[old]) for old in kernel.reads if old in updates)
        needed = tuple(old for old, new in both if overwrites(kernel, old, new) and needed_behind(kernel, old, new))
        if needed:
            plan.kernels[k] = replace(kernel, overwritten=needed)


def _repeated(node: Node, nodes: list[Node]) -> Repeated:
    """The loop of a LOOP node, with all of its outputs."""
    loop = node.arg[0]
    program = rewrite(loop.body)
    results = {n.arg[1]: n for n in nodes if n.op is Op.LOOP and n.arg[0] is loop}
    plan = schedule(program, cached=loop.blocks > 1)
    if loop.trips >= COPIED_TRIPS:
        _mark_steady(plan, {n for k, n in enumerate(program.inputs) if loop.is_shared(k)})
    return Repeated((), core=node, loop=loop, program=program, plan=plan, sources=node.src, results=results)


def schedule(program: Program, cached: bool = False) -> Schedule:
    """The kernels of a program (after `rewrite`). Raises Unfit when a value cannot be told at a point. cached: see
    `keep`."""
    nodes = program.nodes()
    operands: dict[Node, tuple[View, View]] = {}
    kept = keep(program, nodes, operands, cached)
    fusion = Fusion(kept, nodes)
    for n in nodes:
        if n.op is Op.LOOP:
            if all(n not in group.body.outputs for group in fusion.groups):
                fusion.add(_repeated(n, nodes), None)
        elif n.op is Op.CUSTOM:
            if all(n not in group.body.outputs for group in fusion.groups):
                fusion.add(_foreign(n, nodes), None)
        elif n in kept:
            what = primitive(n)
            for loop in what.passes(n):
                fusion.add_pass(loop)
            if n.op is Op.CONTRACT:
                fusion.add(*contraction(n, operands[n], kept))
            elif isinstance(what, OwnKernel):
                fusion.add(alone(n, what, kept), None)
    updates = {program.inputs[old]: program.outputs[new] for old, new in program.updates}
    fusion.overwrite_last(updates)
    plan = Schedule(fusion.kernels(set(program.outputs)), kept)
    _mark_overwritten(plan, updates)
    return plan
