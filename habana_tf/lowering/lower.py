"""Lowers a cluster for given input shapes to a program of primitives.

Walks the cluster's nodes in order and calls each op's lowering from the table. What a lowering may ask is the
`Lowering` object: its input nodes, attributes, and the values of inputs that are known at compile time (fixed
inputs of the cluster, constants, and whatever follows from shapes alone).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..compiler.extent import Extent
from ..compiler.ir import Builder, Node, Program, ShapeError
from ..compiler.premises import NeedsNumber, Premises
from ..graph.cluster import Cluster, ClusterNode
from .ranks import LEAST_RANKS, RANKS, WORDS
from .table import Row, lookup


class LoweringError(Exception):
    """An op the compiler cannot take as it stands; the message names op, node and reason."""

    tf_code = 3
    """TensorFlow's INVALID_ARGUMENT."""


@dataclass
class Lowering:
    """One op being lowered.

    b: the builder. inputs: its data inputs in order (variables are their values). op/name: for messages.
    """

    b: Builder
    op: str
    name: str
    inputs: list[Node]
    attrs: dict[str, Any]
    row: Row
    arg_slices: dict[str, slice]
    fixed: dict[Node, Any] = field(default_factory=dict)
    states: list[Extent] = field(default_factory=list)
    state_index: int | None = None
    premises: Premises = field(default_factory=Premises)

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute as a plain value: int, float, bool, str, DType, list, NumPy array or tuple for a shape."""
        return self.attrs.get(name, default)

    def input(self, name: str) -> Node:
        """The input of an OpDef argument name."""
        return self.inputs[self.arg_slices[name]][0]

    def input_list(self, name: str) -> list[Node]:
        return self.inputs[self.arg_slices[name]]

    def value(self, which: int | str) -> Any:
        """The value (NumPy array) of an input that must be known at compile time; LoweringError if it is not."""
        node = self.inputs[which] if isinstance(which, int) else self.input(which)
        known = self.known(node)
        if known is None:
            raise LoweringError(f"{self.op} {self.name!r}: the value of input {which!r} is needed to fix a shape")
        return known

    def known(self, node: Node) -> Any | None:
        """The value of a node if it is known at compile time, else None."""
        from ..compiler.interpreter import constant

        return constant(node, self.fixed, self.premises)

    def at_least(self, e: Extent, least: Extent = 0) -> bool:
        """Whether e >= least; where that depends on the sizes, it becomes a condition of the range (see `premises`)."""
        return self.premises.at_least(e, least)

    def needs_number(self, reason: str) -> NeedsNumber:
        """What to raise where a symbolic size won't do; `reason` goes on after the op's name, for a user to read."""
        return NeedsNumber(f"{self.op} {self.name!r}: {reason}")

    def state(self) -> Node:
        """This op's own Philox state; say with `reserve` how much of it one execution takes."""
        if self.state_index is None:
            raise LoweringError(f"{self.op} {self.name!r} has no random state")
        return self.b.state(self.state_index)

    def reserve(self, samples: Extent) -> None:
        """How many 128-bit samples one execution of this op takes from its state."""
        assert self.state_index is not None
        self.states[self.state_index] = samples

    def error(self, reason: str) -> LoweringError:
        shapes = ", ".join(str(list(n.shape)) for n in self.inputs)
        return LoweringError(f"{self.op} {self.name!r} on shapes {shapes}: {reason}")


class Walk:
    """A cluster being lowered, node by node in order.

    shapes: one per cluster input. values: NumPy arrays for the inputs that fix shapes, None for the others. dims: for
    symbols in them the sizes at hand.
    """

    def __init__(
        self, cluster: Cluster, shapes: Sequence[Sequence[Extent]], values: Sequence[Any | None],
        dims: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self.b = Builder()
        self.premises = Premises(dims)
        self.cluster = cluster
        self.fixed: dict[Node, Any] = {}
        self.states: list[Extent] = [0] * len(cluster.states)
        self._made: dict[tuple[int, int], Node] = {}
        for i, arg in enumerate(cluster.inputs):
            node = self.b.input(shapes[i], arg.dtype)
            self._made[-1, i] = node
            if values[i] is not None:
                self.fixed[node] = values[i]

    def inputs(self, n: ClusterNode) -> list[Node]:
        """The inputs of a node whose turn it is."""
        return [self._made[ref] for ref in n.inputs]

    def step(self, n: ClusterNode) -> None:
        """Lowers the next node. Raises LoweringError for an op without a row or one that its lowering refuses,
        NeedsNumber where a symbol does not do."""
        self.b.origin = n.index
        outputs = lower_node(self.b, n, self.inputs(n), self.fixed, self.states, self.cluster.states, self.premises)
        for k, out in enumerate(outputs):
            self._made[n.index, k] = out

    def program(self) -> Program:
        """What all nodes came to."""
        outputs = [self._made[ref] for ref in self.cluster.outputs]
        return Program(self.b.inputs, outputs, self.states, self.premises.conditions)


def lower(
    cluster: Cluster, shapes: Sequence[Sequence[Extent]], values: Sequence[Any | None], dims: Sequence[int] = ()
) -> Program:
    """The program of a cluster, for arguments as in `Walk`. Raises what `Walk.step` raises."""
    walk = Walk(cluster, shapes, values, dims)
    for n in cluster.nodes:
        walk.step(n)
    return walk.program()


def lower_node(
    b: Builder, n: ClusterNode, inputs: list[Node], fixed: dict[Node, Any], states: list[Extent],
    order: Sequence[int], premises: Premises | None = None,
) -> list[Node]:  # fmt: skip
    """The output nodes of one cluster node."""
    row = lookup(n.op)
    if row is None:
        raise LoweringError(f"{n.op} {n.name!r} has no row in the op table")
    state = order.index(n.index) if n.index in order else None
    premises = premises or Premises()
    context = Lowering(b, n.op, n.name, inputs, n.attrs, row, n.arg_slices, fixed, states, state, premises)
    try:
        _check_ranks(context)
        result = row.lower(context)
    except ShapeError as e:
        raise LoweringError(f"{n.op} {n.name!r}: {e}") from e
    except NeedsNumber as e:
        raise e if n.name in str(e) else NeedsNumber(f"{n.op} {n.name!r}: {e}") from e
    return [result] if isinstance(result, Node) else list(result)


def _check_ranks(c: Lowering) -> None:
    """Arguments whose rank the table knows."""
    for name, rank in RANKS.get(c.op, {}).items():
        for node in c.input_list(name):
            if node.rank != rank:
                raise c.error(f"{name} must be {WORDS[rank]}, not of rank {node.rank}")
    for name, rank in LEAST_RANKS.get(c.op, {}).items():
        if c.input(name).rank < rank:
            raise c.error(f"{name} must have rank {rank} at least")
