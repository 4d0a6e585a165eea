"""Lowers a cluster for given input shapes to a program of primitives: op by op, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from habana_tf.cluster.cluster import Cluster, ClusterOp, Ref
from habana_tf.cluster.counts import Count
from habana_tf.cluster.lowering_context import LoweringContext, LoweringError
from habana_tf.ir.builder import ShapeError
from habana_tf.ir.conditions import NeedsNumber, Premises
from habana_tf.ir.extent import Extent, overflow
from habana_tf.ir.primitives import Node, Program


class ClusterLowering:
    """A cluster being lowered, op by op in order.

    shapes: one per cluster input. values: NumPy arrays for the inputs that fix shapes, None for the others. dims: for
    symbols in them the sizes at hand. checked: whether the program has outputs that check indices. made: what the
    inputs, and the ops so far, came to.
    """

    def __init__(
        self, cluster: Cluster, shapes: Sequence[Sequence[Extent]], values: Sequence[Any | None],
        dims: Sequence[int] = (), checked: bool = False,
    ) -> None:  # fmt: skip
        b = cluster.builder()
        fixed: dict[Node, Any] = {}
        counts: dict[Node, Extent] = {}
        self.cluster = cluster
        self.made: dict[Ref, Node] = {}
        for i, (arg, shape, value) in enumerate(zip(cluster.inputs, shapes, values, strict=True)):
            node = self.made[-1, i] = b.input(shape, arg.dtype)
            if isinstance(value, Count):
                counts[node] = value.item()
            elif value is not None:
                fixed[node] = value
        states: list[Extent] = [0] * len(cluster.states)
        self.context = LoweringContext(
            b, fixed, Premises(dims), counts, states, cluster.states, [] if checked else None
        )  # fmt: skip

    def inputs(self, n: ClusterOp) -> list[Node]:
        """The inputs of the next op."""
        return [self.made[ref] for ref in n.inputs]

    def step(self, n: ClusterOp) -> None:
        """Lowers the next op. Raises what `lower_op` raises."""
        self.context.b.origin = n.index
        for k, out in enumerate(lower_op(n, self.inputs(n), self.context)):
            self.made[n.index, k] = out

    def run(self) -> Program:
        """Lowers all ops. Raises what `lower_op` raises."""
        for n in self.cluster.nodes:
            self.step(n)
        return self.program()

    def program(self) -> Program:
        """What all ops came to."""
        context = self.context
        outputs = [self.made[ref] for ref in self.cluster.outputs]
        updates = tuple((r.assigns, k) for k, r in enumerate(self.cluster.results) if r.assigns >= 0)
        checks = context.checks or []
        return Program(
            context.b.inputs, [*outputs, *(node for node, _ in checks)], context.states, context.premises.conditions,
            updates, tuple(check for _, check in checks),
        )  # fmt: skip


def lower(
    cluster: Cluster, shapes: Sequence[Sequence[Extent]], values: Sequence[Any | None], dims: Sequence[int] = (),
    checked: bool = False,
) -> Program:  # fmt: skip
    """The program of a cluster, for arguments as in `ClusterLowering`. Raises what `lower_op` raises."""
    return ClusterLowering(cluster, shapes, values, dims, checked).run()


def lower_op(n: ClusterOp, inputs: list[Node], context: LoweringContext) -> Sequence[Node]:
    """The output nodes of one op. Raises LoweringError, which names the op, for arguments that it refuses, and
    NeedsNumber where a symbolic size does not do."""
    try:
        outputs = n.lower(inputs, context)
    except ShapeError as e:
        raise LoweringError(f"{n.op} {n.name!r}: {e}") from e
    except NeedsNumber as e:
        raise e if n.name in str(e) else NeedsNumber(f"{n.op} {n.name!r}: {e}") from e
    for made in outputs:
        if (factors := overflow(made.shape)) is not None:
            why = "Encountered overflow when multiplying {} with {}, result: -1".format(*factors)
            raise LoweringError.at(n.op, n.name, inputs, why)
    return outputs
