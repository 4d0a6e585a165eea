"""An op of TensorFlow's in a cluster: its attributes as plain values, and its lowering from the op table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from habana_tf.cluster.cluster import ClusterOp, Ref, Role
from habana_tf.cluster.lowering_context import LoweringContext, LoweringError
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.facts import opdefs
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.ranks import LEAST_RANKS, RANKS, WORDS
from habana_tf.tensorflow.lowering.row import Row
from habana_tf.tensorflow.lowering.table import lookup

_UPDATES = "ResourceApply"
"""What the names of TensorFlow's update ops begin with."""


@dataclass
class TensorFlowOp(ClusterOp):
    """attrs: plain Python values (see `attributes`). arg_slices: where each argument of the OpDef is in `inputs`.
    proto: the NodeDef."""

    attrs: dict[str, Any]
    arg_slices: dict[str, slice]
    proto: Any

    @property
    def row(self) -> Row | None:
        """Its row of the op table."""
        return lookup(self.op)

    def lower(self, inputs: list[Node], context: LoweringContext) -> Sequence[Node]:
        row = self.row
        if row is None:
            raise LoweringError(f"{self.op} {self.name!r} has no row in the op table")
        c = Lowering(context, self.op, self.name, inputs, self.attrs, row, self.arg_slices, self.index)
        _check_ranks(c)
        return self._lowered(c)

    def _lowered(self, c: Lowering) -> Sequence[Node]:
        result = c.row.lower(c)
        return [result] if isinstance(result, Node) else list(result)

    def roles(self) -> Iterator[tuple[Ref, Role]]:
        """See `ClusterOp.roles`: an update op names its arguments."""
        row = self.row
        if row is None or not self.op.startswith(_UPDATES):
            return
        roles: dict[str, Role] = dict.fromkeys(row.updates, "state")
        roles.update(var="weight", grad="gradient")
        for name, at in self.arg_slices.items():
            if name in roles:
                yield from ((ref, roles[name]) for ref in self.inputs[at])

    def variable_type(self) -> int:
        """TensorFlow's number of the element type of its variables."""
        return opdefs.variable_type_of(self.proto)

    def resources(self) -> list[bool]:
        """Which inputs are variables, whose values they are in a cluster."""
        row = self.row
        out = [False] * len(self.inputs)
        for name in (*row.variables, *row.updates) if row is not None else ():
            at = self.arg_slices[name]
            out[at] = [True] * (at.stop - at.start)
        return out


def _check_ranks(c: Lowering) -> None:
    """Arguments whose rank the table knows."""
    for name, rank in RANKS.get(c.op, {}).items():
        for node in c.input_list(name):
            if node.rank != rank:
                raise c.error(f"{name} must be {WORDS[rank]}, not of rank {node.rank}")
    for name, rank in LEAST_RANKS.get(c.op, {}).items():
        if c.input(name).rank < rank:
            raise c.error(f"{name} must have rank {rank} at least")
