"""What the scheduler asks of the code generator: kernels over nodes, before there is any code."""

from __future__ import annotations

from dataclasses import dataclass, field

from .extent import Extent
from .ir import Node, Shape


@dataclass(frozen=True, eq=False)
class Store:
    """`value` at each index of its shape is written to `target` at that index plus `shift`.

    target is usually the same node; for a CONCAT it is the whole, and shift says where the part begins.
    """

    value: Node
    target: Node
    shift: tuple[Extent, ...]


def store(node: Node) -> Store:
    return Store(node, node, (0,) * node.rank)


@dataclass(eq=False)
class LoopKernel:
    """One pass over `domain`: elementwise results are stored, reductions of the same domain and axes accumulated."""

    domain: Shape
    axes: tuple[int, ...] = ()
    stores: list[Store] = field(default_factory=list)
    reduces: list[Node] = field(default_factory=list)

    @property
    def outputs(self) -> list[Node]:
        return [*(s.target for s in self.stores), *self.reduces]


@dataclass(eq=False)
class ContractKernel:
    """A contraction; `stores` is the elementwise epilogue over the result's shape (the result itself included if it
    must be kept)."""

    node: Node
    stores: list[Store] = field(default_factory=list)

    @property
    def outputs(self) -> list[Node]:
        return [s.target for s in self.stores]


@dataclass(eq=False)
class SingleKernel:
    """A primitive with a kernel of its own: RANDOM, SCATTER, SCAN, SORT."""

    node: Node

    @property
    def outputs(self) -> list[Node]:
        return [self.node]


Kernel = LoopKernel | ContractKernel | SingleKernel


@dataclass(frozen=True)
class Call:
    """One generated function and how to launch it.

    buffers: what each entry of the kernel's buffer list is: a node kept in memory, or ("temp", i) for temporary i
    of its kernel. grid: number of work items; grain: least number of items worth a thread of its own. constants: what
    a function that reads no symbolic extents finds in their place (see `codegen.alike`).
    """

    name: str
    ir: str
    buffers: tuple[Node | tuple[str, int], ...]
    grid: Extent
    grain: int
    constants: tuple[int, ...] = ()


@dataclass(frozen=True)
class Code:
    """The code of one kernel: calls in order, temporary buffers in bytes, declarations the functions need."""

    calls: tuple[Call, ...]
    declarations: frozenset[str]
    temps: tuple[Extent, ...] = ()
