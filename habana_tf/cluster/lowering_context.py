"""What the ops of a cluster share while it is lowered, and the errors of what cannot be lowered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from habana_tf.ir.builder import Builder
from habana_tf.ir.conditions import Premises
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
