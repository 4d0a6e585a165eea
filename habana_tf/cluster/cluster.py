"""A cluster: a list of ops that one launch runs, each of which says how it is made of primitives.

This is the border between front ends and the compiler. A front end (TensorFlow's is `tensorflow.clusters`) makes
clusters, gives launches buffers, and calls `resolver.resolve`; keys, recipes, machine code and the model of a card are
made of these classes and know no framework. An op and a cluster have to give what is abstract here and the fields. The
rest has answers that hold for any front end: no recipe for all shapes of an op, no other way to run it.

Variables are dataflow: an op on a variable has the variable's *value* as input, and gives the new values of those that
it updates as its first outputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from habana_tf.cluster.lowering_context import LoweringContext, LoweringError
from habana_tf.cluster.signature import Signature
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node

Ref = tuple[int, int]
"""(op index, output index); op index -1 is the cluster's input number `output index`."""
Counting = Callable[[Sequence[Any]], int]
"""Counts one number from the values of inputs (see `counts`)."""
Role = Literal["weight", "state", "gradient"]
"""What a tensor is in a training step; state is the optimizer's."""


@dataclass(frozen=True)
class Arg:
    """An input or output of a cluster. variable: it is the value of a variable, present or new.

    assigns: for an output, the cluster's input that is the present value of the variable that gets it; -1 for none.
    """

    dtype: DType
    host: bool
    name: str = ""
    variable: bool = False
    assigns: int = -1


@dataclass
class ClusterOp(ABC):
    """One op of a cluster. op: what it is, and name: what the program calls it, for people."""

    index: int
    op: str
    name: str
    inputs: tuple[Ref, ...]

    is_loop = False
    """Whether it runs ops of its own again and again."""

    @abstractmethod
    def lower(self, inputs: list[Node], context: LoweringContext) -> Sequence[Node]:
        """Its outputs as primitives. Raises LoweringError for arguments that it refuses, NeedsNumber where a symbolic
        size does not do."""

    def roles(self) -> Iterable[tuple[Ref, Role]]:
        """What it says of its inputs in a training step."""
        return ()


@dataclass(frozen=True)
class AnyShape:
    """An op for all its shapes: what it is lowered with. shapes, values: of its inputs, over symbols; dims: the numbers
    behind these; result: the first output's real shape.

    `result` is also that of every output which has the first one's shape when lowered; another has what it was lowered
    to, with numbers for symbols.
    """

    shapes: list[tuple[Extent, ...]]
    values: list[Any | None]
    dims: list[int]
    result: tuple[int, ...]

    def results(self, lowered: Sequence[tuple[Extent, ...]]) -> list[tuple[int, ...]]:
        """The real shapes of the outputs."""
        return [
            self.result if shape == lowered[0] else tuple(ext.evaluate(n, self.dims) for n in shape)
            for shape in lowered
        ]


class InvalidArguments(LoweringError):
    """Arguments that a framework refuses, in its words. status_code: its status.

    taken: the framework takes them, so that it is only the lowering that does not.
    """

    def __init__(self, message: str, code: int = LoweringError.status_code, taken: bool = False) -> None:
        super().__init__(message)
        self.status_code, self.taken = code, taken


@dataclass(frozen=True)
class OtherWay:
    """How a framework runs a cluster by itself. results: number of the element type and shape of every output. body:
    computes them, from arrays to arrays."""

    results: list[tuple[int, list[int]]]
    body: Callable[[Sequence[Any]], list[Any]]


@dataclass(eq=False)
class Cluster(ABC):
    """inputs: device arguments first, then host ones. states: indices of the ops with a random state. data: the cluster
    as bytes, of which `read` makes it again."""

    name: str
    inputs: list[Arg]
    nodes: Sequence[ClusterOp]
    outputs: list[Ref]
    results: list[Arg]
    states: list[int] = field(default_factory=list)
    data: bytes = b""
    because: str = field(default="", kw_only=True)
    """How it differs from a cluster that the front end gave before, where that is why it is new."""
    earlier: Sequence[Signature] = field(default=(), kw_only=True)
    """Signatures for which the front end gave clusters of their own before it gave this one for all."""
    alone: str = field(default="", kw_only=True)
    """Why the front end gave it for these sizes only, although it met others of the same structure."""

    framework = "its framework"
    """What messages call it."""
    numbered_inputs = False
    """Whether its inputs have numbers, and no names of the program's."""

    @property
    @abstractmethod
    def content(self) -> str:
        """A digest that is equal for equal computations, whatever their ops are called."""

    @classmethod
    @abstractmethod
    def read(cls, data: bytes) -> Cluster:
        """The cluster with this `data`."""

    def computed(self) -> list[tuple[str, object]]:
        """What it computes, as parts of a recipe's key. A front end adds the version of its lowerings, on which the
        program of a cluster depends too."""
        return [("cluster", self.content)]

    def builder(self) -> Builder:
        """What makes the primitives of its program."""
        return Builder()

    @property
    def has_bf16(self) -> bool:
        """Whether any tensor in it may be bf16."""
        return any(a.dtype is DType.BF16 for a in (*self.inputs, *self.results))

    @property
    def counted(self) -> list[tuple[tuple[int, ...], Counting]]:
        """(inputs, what counts them) for the inputs whose values decide one number and nothing else."""
        return []

    def any_shape(self, shapes: Sequence[tuple[int, ...]], values: Sequence[Any | None]) -> AnyShape | None:
        """Of an op by itself its form for all shapes; None where these shapes have none."""
        return None

    def is_op_type(self, name: str) -> bool:
        """Whether the framework calls a type of op so: its default names of ops are made of these."""
        return False

    def refusal(
        self, shapes: Sequence[Sequence[int]], values: Sequence[Any | None], launched: bool
    ) -> InvalidArguments | None:
        """The error in the framework's words for a cluster whose lowering failed; None where it has none to tell.
        launched: the error is of a launch of a graph, whose text must name the op in it."""
        return None

    def other_way(self, shapes: Sequence[Sequence[int]], values: Sequence[Any | None]) -> OtherWay | None:
        """How the framework runs it without a recipe; None where it cannot. Raises InvalidArguments."""
        return None
