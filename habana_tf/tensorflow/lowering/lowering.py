"""The argument of every lowering: the op that is being lowered.

A lowering is a function of a `Lowering`: its input nodes, attributes, and the values of inputs that are known at
compile time (fixed inputs of the cluster, constants, and whatever follows from shapes alone).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from habana_tf.cluster.lowering_context import LoweringContext, LoweringError
from habana_tf.ir.builder import Builder
from habana_tf.ir.conditions import NeedsNumber, Premises
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.row import Row


@dataclass
class Lowering:
    """One op being lowered.

    context: what it shares with the other ops of its cluster. op, name: for messages. inputs: its data inputs in order
    (variables are their values). index: which op of the cluster it is.
    """

    context: LoweringContext
    op: str
    name: str
    inputs: list[Node]
    attrs: dict[str, Any]
    row: Row
    arg_slices: dict[str, slice]
    index: int = 0

    @property
    def b(self) -> Builder:
        """Makes primitives."""
        return self.context.b

    @property
    def premises(self) -> Premises:
        """What is taken for granted about symbolic sizes."""
        return self.context.premises

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
            hint = "" if isinstance(which, int) or which in self.row.fixed else "; name it in fixed= of the op"
            raise LoweringError(f"{self.op} {self.name!r}: the value of input {which!r} is needed to fix a shape{hint}")
        return known

    def counted(self, name: str) -> Extent:
        """What the row counts from an argument whose values decide nothing else (see `counts`). LoweringError where
        neither that number nor the values are known."""
        nodes = self.input_list(name)
        found = self.context.counts.get(nodes[0]) if nodes else None
        if found is not None:
            return found
        assert self.row.counts is not None
        values = [self.known(node) for node in nodes]
        if any(v is None for v in values):
            self.value(name)
        if any(v.dtype == object for v in values if v is not None):
            raise self.needs_number(f"its input {name!r} follows from a size that changes, and must be numbers")
        return self.row.counts(values)

    def known(self, node: Node) -> Any | None:
        """The value of a node if it is known at compile time, else None."""
        return self.context.known(node)

    def at_least(self, e: Extent, least: Extent = 0) -> bool:
        """Whether e >= least; what depends on the sizes becomes a condition of the range (see `ir.conditions`)."""
        return self.premises.at_least(e, least)

    def needs_number(self, reason: str) -> NeedsNumber:
        """What to raise where a symbolic size won't do; `reason` goes on after the op's name, for a user to read."""
        return NeedsNumber(f"{self.op} {self.name!r}: {reason}")

    def state(self) -> Node:
        """This op's own Philox state; say with `reserve` how much of it one execution takes."""
        if self.index not in self.context.stateful:
            raise LoweringError(f"{self.op} {self.name!r} has no random state")
        return self.b.state(self.context.stateful.index(self.index))

    def reserve(self, samples: Extent) -> None:
        """How many 128-bit samples one execution of this op takes from its state."""
        self.context.states[self.context.stateful.index(self.index)] = samples

    def require(self, condition: object, reason: str) -> None:
        """Raises the op's error where what its arguments must be does not hold."""
        if not condition:
            raise self.error(reason)

    def error(self, reason: str) -> LoweringError:
        """What to raise for arguments that the op refuses."""
        return LoweringError.at(self.op, self.name, self.inputs, reason)
