"""The families of primitives: what is common to views, values at a point, and kernels of their own.

The class of each primitive, in `primitive_classes`, is a subclass of one of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from habana_tf.compiler.body import Guard, PointValue
from habana_tf.compiler.view_indices import Index, Range
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node, Op, Shape

Access = tuple[Node, Index, Guard]
"""An access: a node at an index, under a guard."""
ValueRule = tuple[Sequence[Access], Callable[[tuple[PointValue, ...]], PointValue]]
"""How a value is computed: its sources, and a function of their values."""


@dataclass
class Pass:
    """A loop over a domain before fusion: its stores, (value, target, shift), and reductions over `axes`."""

    domain: Shape
    stores: list[tuple[Node, Node, Index]] = field(default_factory=list)
    reduces: list[Node] = field(default_factory=list)
    axes: tuple[int, ...] = ()

    @property
    def outputs(self) -> list[Node]:
        return [*(target for _, target, _ in self.stores), *self.reduces]


CLASSES: dict[Op, type[Primitive]] = {}


class Primitive(ABC):
    """The interface of all primitives."""

    engine = "TPC"
    is_view = False  # its elements are its sources' elements
    in_pieces = False  # several loops store a part each
    reads_memory = False  # its sources must be in memory

    def __init_subclass__(cls, of: Op | None = None) -> None:
        if of is not None:
            CLASSES[of] = cls

    @abstractmethod
    def passes(self, node: Node) -> list[Pass]:
        """The loops that compute it where it is kept."""

    def in_memory(self, node: Node) -> bool:
        """Whether it is always kept in memory."""
        return True

    def needs_in_memory(self, node: Node) -> Sequence[Node]:
        """The sources that must be in memory; of a view, where elements are addressed by their memory offset."""
        return node.src if self.reads_memory else ()

    def repeats(self, node: Node) -> bool:
        """Whether it repeats elements of its source."""
        return False

    def flops(self, node: Node) -> Extent:
        """Floating-point operations of its kernel."""
        return 0


class OwnKernel(Primitive):
    """Always in memory, computed by a function of its own."""

    updates = False  # its function modifies what its loops stored

    def passes(self, node: Node) -> list[Pass]:
        return []

    def inputs(self, node: Node) -> Sequence[Node]:
        """The sources that its function reads, at points of the first one's domain."""
        return node.src

    @abstractmethod
    def flops(self, node: Node) -> Extent: ...


class Inline(Primitive):
    """A value at each point; stored by a loop where it is kept."""

    def passes(self, node: Node) -> list[Pass]:
        return [whole(node, node)]

    def in_memory(self, node: Node) -> bool:
        return False

    @abstractmethod
    def cost(self, node: Node, sources: int, rounding: int) -> int:
        """Scalar operations per element. sources: the sum over its sources; rounding: see `costs.bf16_rounding`."""

    @abstractmethod
    def formula(self, node: Node, index: Index, guard: Guard) -> ValueRule:
        """How to compute it at an index."""


class IndexView(Inline):
    """Its first source at another index."""

    is_view = True

    def cost(self, node: Node, sources: int, rounding: int) -> int:
        return max(sources, 1)

    def formula(self, node: Node, index: Index, guard: Guard) -> ValueRule:
        return [(node.src[0], self.inside(node, index)[0], guard)], same

    @abstractmethod
    def inside(self, node: Node, index: Index) -> tuple[Index, Sequence[Range]]:
        """The index in its source, and the ranges outside of which it is padding."""


def whole(value: Node, target: Node) -> Pass:
    return Pass(target.shape, [(value, target, (0,) * target.rank)])


def same(args: tuple[PointValue, ...]) -> PointValue:
    return args[0]
