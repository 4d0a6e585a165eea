"""Scheduling: which values are materialized, the kernels that compute them, and their order.

    keep     every node is *kept* (has a buffer) or *inlined* (recomputed where it is used)
    kernels  one kernel per kept node that must be computed
    fuse     kernels over the same domain become one; elementwise work after a contraction becomes its epilogue
    order    topological, close to the program's

Invariant: the result depends on the program alone, and on what rounding to bf16 takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from habana_tf.compiler.body import Body
from habana_tf.compiler.body_builder import alone, contraction
from habana_tf.compiler.contraction import StridedView
from habana_tf.compiler.costs import COPIED_TRIPS
from habana_tf.compiler.fuse import Fusion
from habana_tf.compiler.in_place import needed_after_overwrite, overwrites
from habana_tf.compiler.kept_values import keep
from habana_tf.compiler.primitive_classes import primitive
from habana_tf.compiler.primitive_families import OwnKernel
from habana_tf.compiler.rewrite import rewrite
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Custom, Loop, Node, Op, Program, beside


@dataclass
class Schedule:
    """kernels: in execution order; kept: the nodes with buffers."""

    kernels: list[Body]
    kept: set[Node]

    def flat(self) -> Iterator[Body]:
        """The kernels, with those in loops instead of the loops."""
        for kernel in self.kernels:
            if isinstance(kernel, Repeated):
                yield from kernel.plan.flat()
            else:
                yield kernel


@dataclass(frozen=True, eq=False)
class Repeated(Body):
    """A LOOP: the schedule of its body.

    program: the body after `rewrite`. sources: its operands, in the order of the program's inputs. results: its used
    outputs, by number.
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
    """A custom kernel in C, its core. results: its used outputs, by number."""

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


def _mark_invariant(plan: Schedule, shared: set[Node]) -> None:
    """Marks the loop-invariant operands of a loop's contractions."""
    for k, kernel in enumerate(plan.kernels):
        invariant = tuple(v.base in shared for v in kernel.operands)
        if any(invariant):
            plan.kernels[k] = replace(kernel, invariant=invariant)


def _mark_overwritten(plan: Schedule, updates: dict[Node, Node]) -> None:
    """Marks the old values of variables that kernels still use after overwriting them."""
    for k, kernel in enumerate(plan.kernels):
        both = ((old, updates[old]) for old in kernel.reads if old in updates)
        needed = tuple(
            old for old, new in both if overwrites(kernel, old, new) and needed_after_overwrite(kernel, old, new)
        )
        if needed:
            plan.kernels[k] = replace(kernel, overwritten=needed)


def _repeated(node: Node, nodes: list[Node], rounding: int) -> Repeated:
    """Schedules a LOOP, with all of its outputs."""
    loop = node.arg[0]
    program = rewrite(loop.body)
    results = {n.arg[1]: n for n in nodes if n.op is Op.LOOP and n.arg[0] is loop}
    plan = schedule(program, loop.blocks > 1, rounding)
    if not isinstance(loop.trips, int) or loop.trips >= COPIED_TRIPS:
        _mark_invariant(plan, {n for k, n in enumerate(program.inputs) if loop.is_shared(k)})
    return Repeated((), core=node, loop=loop, program=program, plan=plan, sources=node.src, results=results)


def schedule(program: Program, cached: bool = False, rounding: int = 1) -> Schedule:
    """Schedules a program (after `rewrite`). Raises Unfit if an index cannot be computed. cached, rounding: see
    `keep`."""
    nodes = program.nodes()
    operands: dict[Node, tuple[StridedView, StridedView]] = {}
    kept = keep(program, nodes, operands, cached, rounding)
    fusion = Fusion(kept, nodes)
    for n in nodes:
        if n.op in (Op.LOOP, Op.CUSTOM):
            if all(n not in group.body.outputs for group in fusion.groups):
                fusion.add(_repeated(n, nodes, rounding) if n.op is Op.LOOP else _foreign(n, nodes), None)
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
