"""What the ops of a cluster share while it is lowered, and the errors of what cannot be lowered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from habana_tf.ir.builder import Builder
from habana_tf.ir.conditions import Premises
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import IndexCheck, Node


class LoweringError(Exception):
    """An op the compiler cannot take as it stands; the message names op, node and reason."""

    status_code = 3
    """The status INVALID_ARGUMENT."""

    @classmethod
    def at(cls, op: str, name: str, inputs: Sequence[Node], reason: str) -> LoweringError:
        """The error of an op that refuses these inputs."""
        shapes = ", ".join(str(list(n.shape)) for n in inputs)
        return cls(f"{op} {name!r} on shapes {shapes}: {reason}")


class CustomLoweringError(LoweringError):
    """A lowering that a program brings fails: there is no fallback, the message is for its author."""


@dataclass
class LoweringContext:
    """b: the builder of the program. fixed: values of nodes that are known at compile time; counts: numbers counted
    from values (see `counts`). premises: what is taken for granted about symbolic sizes. states: samples that one
    execution takes from each random state; stateful: the op that each is of, by index. checks: what a launch checks of
    its indices, so far; None where it checks none."""

    b: Builder
    fixed: dict[Node, Any] = field(default_factory=dict)
    premises: Premises = field(default_factory=Premises)
    counts: Mapping[Node, Extent] = field(default_factory=dict)
    states: list[Extent] = field(default_factory=list)
    stateful: Sequence[int] = ()
    checks: list[tuple[Node, IndexCheck]] | None = None

    def known(self, node: Node) -> Any | None:
        """The value (NumPy array) of a node if it is known at compile time, else None."""
        from habana_tf.ir.constant_folding import constant

        return constant(node, self.fixed, self.premises)

    def in_range(
        self, argument: str, indices: Node, bound: Extent, negative: bool = False, refused: bool = False
    ) -> None:
        """Has each launch look whether all `indices`, which the op is given as `argument`, are below `bound`, and not
        negative, which with `negative` they may be. Indices that are known at compile time are looked at here.

        refused: such an index fails the launch, whatever HABANA_SIM_CHECK_INDICES says but `off`.
        """
        if self.checks is None:
            return
        known = self.known(indices)
        if known is not None and known.dtype != object and isinstance(bound, int):
            least = known.min(initial=0)
            if known.max(initial=-1) < bound and (negative or least >= 0):
                return
        b = self.b
        numbers = indices if indices.dtype.bits >= 32 else b.cast(indices, DType.I32)
        if not negative:
            numbers = b.cast(numbers, DType.U32 if numbers.dtype.bits == 32 else DType.U64)
        largest = b.reduce("max", b.reshape(numbers, (numbers.numel,)), [0])
        if all((node, check.bound) != (largest, bound) for node, check in self.checks):
            self.checks.append((largest, IndexCheck(b.origin, argument, bound, numbers.numel, refused)))
