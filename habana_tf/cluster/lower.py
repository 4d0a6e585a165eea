"""Lowers a cluster for given input shapes to a program of primitives.

Walks the cluster's nodes in order and calls each op's lowering from the op table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from habana_tf.cluster import loops
from habana_tf.cluster.cluster import Cluster, ClusterNode
from habana_tf.ir.builder import Builder, ShapeError
from habana_tf.ir.conditions import NeedsNumber, Premises
from habana_tf.ir.extent import Extent, overflow
from habana_tf.ir.primitives import IndexCheck, Node, Program
from habana_tf.lowering.counts import Count
from habana_tf.lowering.lowering import Lowering, LoweringError
from habana_tf.lowering.ranks import LEAST_RANKS, RANKS, WORDS
from habana_tf.lowering.table import LOOP, lookup


class Walk:
    """A cluster being lowered, node by node in order.

    shapes: one per cluster input. values: NumPy arrays for the inputs that fix shapes, None for the others. dims: for
    symbols in them the sizes at hand. checked: whether the program has outputs that check indices.
    """

    def __init__(
        self, cluster: Cluster, shapes: Sequence[Sequence[Extent]], values: Sequence[Any | None],
        dims: Sequence[int] = (), checked: bool = False,
    ) -> None:  # fmt: skip
        self.b = Builder()
        self.premises = Premises(dims)
        self.cluster = cluster
        self.fixed: dict[Node, Any] = {}
        self.counts: dict[Node, Extent] = {}
        self.states: list[Extent] = [0] * len(cluster.states)
        self.checks: list[tuple[Node, IndexCheck]] | None = [] if checked else None
        self._made: dict[tuple[int, int], Node] = {}
        for i, arg in enumerate(cluster.inputs):
            node = self.b.input(shapes[i], arg.dtype)
            self._made[-1, i] = node
            value = values[i]
            if isinstance(value, Count):
                self.counts[node] = value.item()
            elif value is not None:
                self.fixed[node] = value

    def inputs(self, n: ClusterNode) -> list[Node]:
        """The inputs of a node whose turn it is."""
        return [self._made[ref] for ref in n.inputs]

    def step(self, n: ClusterNode) -> None:
        """Lowers the next node. Raises LoweringError for an op without a row or one that its lowering refuses,
        NeedsNumber where a symbol does not do."""
        self.b.origin = n.index
        outputs = lower_node(
            self.b, n, self.inputs(n), self.fixed, self.states, self.cluster.states, self.premises, self.counts,
            self.checks,
        )  # fmt: skip
        for k, out in enumerate(outputs):
            self._made[n.index, k] = out

    def program(self) -> Program:
        """What all nodes came to."""
        outputs = [self._made[ref] for ref in self.cluster.outputs]
        updates = tuple((r.assigns, k) for k, r in enumerate(self.cluster.results) if r.assigns >= 0)
        checks = self.checks or []
        return Program(
            self.b.inputs, [*outputs, *(node for node, _ in checks)], self.states, self.premises.conditions, updates,
            tuple(check for _, check in checks),
        )  # fmt: skip


def lower(
    cluster: Cluster, shapes: Sequence[Sequence[Extent]], values: Sequence[Any | None], dims: Sequence[int] = (),
    checked: bool = False,
) -> Program:  # fmt: skip
    """The program of a cluster, for arguments as in `Walk`. Raises what `Walk.step` raises."""
    walk = Walk(cluster, shapes, values, dims, checked)
    for n in cluster.nodes:
        walk.step(n)
    return walk.program()


def lower_node(
    b: Builder, n: ClusterNode, inputs: list[Node], fixed: dict[Node, Any], states: list[Extent],
    order: Sequence[int], premises: Premises | None = None, counts: Mapping[Node, Extent] | None = None,
    checks: list[tuple[Node, IndexCheck]] | None = None,
) -> list[Node]:  # fmt: skip
    """The output nodes of one cluster node. checks: where the checks of its indices go; None for none."""
    row = lookup(n.op)
    if row is None:
        raise LoweringError(f"{n.op} {n.name!r} has no row in the op table")
    state = order.index(n.index) if n.index in order else None
    premises = premises or Premises()
    context = Lowering(
        b, n.op, n.name, inputs, n.attrs, row, n.arg_slices, fixed, states, state, premises, counts or {}, checks
    )
    try:
        _check_ranks(context)
        result = loops.lower(context, n, lower_node) if n.op == LOOP else row.lower(context)
    except ShapeError as e:
        raise LoweringError(f"{n.op} {n.name!r}: {e}") from e
    except NeedsNumber as e:
        raise e if n.name in str(e) else NeedsNumber(f"{n.op} {n.name!r}: {e}") from e
    outputs = [result] if isinstance(result, Node) else list(result)
    for made in outputs:
        if (factors := overflow(made.shape)) is not None:
            raise context.error("Encountered overflow when multiplying {} with {}, result: -1".format(*factors))
    return outputs


def _check_ranks(c: Lowering) -> None:
    """Arguments whose rank the table knows."""
    for name, rank in RANKS.get(c.op, {}).items():
        for node in c.input_list(name):
            if node.rank != rank:
                raise c.error(f"{name} must be {WORDS[rank]}, not of rank {node.rank}")
    for name, rank in LEAST_RANKS.get(c.op, {}).items():
        if c.input(name).rank < rank:
            raise c.error(f"{name} must have rank {rank} at least")
