"""A cluster: a list of ops that one launch runs. Each op can lower itself to primitives.

This is the border between the front ends and the compiler. A front end (`tensorflow.clusters`, `torch.record.program`)
subclasses `Cluster` and `ClusterOp`, makes clusters, gives launches their buffers, and calls `resolver.resolve`. All
behind that border works on these classes and knows no framework: keys, recipes, machine code, the model of a card. A
subclass has to define the abstract methods. The others have a default that is right for any front end, such as: an op
has no recipe for all its shapes, and there is no way to run a cluster but its recipe.

Variables are dataflow: an op on a variable has the variable's *value* as input, and the new values of the variables
that it updates are its first outputs.
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
"""Computes one number, which decides a shape, from the values of inputs (see `counts`)."""
Role = Literal["weight", "state", "gradient"]
"""What a tensor is for in a training step. State is an optimizer's."""


OF_OPS = "numbers that ops take"
"""The name of an input that the program does not have: of a cluster for several sizes, it holds lengths and places that
ops have as arguments."""


@dataclass(frozen=True)
class Arg:
    """An input or output of a cluster. host: whether it is in host memory. variable: whether it is a variable's value.

    assigns: of an output that is the new value of a variable, the number of the input that is its old value; else -1.
    """

    dtype: DType
    host: bool
    name: str = ""
    variable: bool = False
    assigns: int = -1


@dataclass
class ClusterOp(ABC):
    """One op of a cluster. index: its number in the cluster. op: its type. name: what the program calls it, for
    people. inputs: outputs of earlier ops, or inputs of the cluster."""

    index: int
    op: str
    name: str
    inputs: tuple[Ref, ...]

    is_loop = False
    """Whether it is a loop, with a body of ops."""

    @abstractmethod
    def lower(self, inputs: list[Node], context: LoweringContext) -> Sequence[Node]:
        """Its outputs as primitives. Raises LoweringError for arguments that it has no lowering for, NeedsNumber where
        it needs a number and a size is a symbol."""

    def roles(self) -> Iterable[tuple[Ref, Role]]:
        """What it knows of the roles of its inputs in a training step."""
        return ()


@dataclass(frozen=True)
class AnyShape:
    """How an op is lowered once for all its shapes. shapes, values: of its inputs, over symbols. dims: the numbers that
    the symbols stand for in this launch. result: the shape of its first output in this launch.
    """

    shapes: list[tuple[Extent, ...]]
    values: list[Any | None]
    dims: list[int]
    result: tuple[int, ...]

    def results(self, lowered: Sequence[tuple[Extent, ...]]) -> list[tuple[int, ...]]:
        """The shapes of the outputs in this launch. lowered: their shapes over symbols. Outputs whose shape over
        symbols is the first one's have the shape `result`; the symbols of others are replaced by `dims`."""
        return [
            self.result if shape == lowered[0] else tuple(ext.evaluate(n, self.dims) for n in shape)
            for shape in lowered
        ]


class InvalidArguments(LoweringError):
    """An op's arguments are wrong; the message and status_code are the framework's own.

    taken: they are right for the framework, and only the lowering does not take them.
    """

    def __init__(self, message: str, code: int = LoweringError.status_code, taken: bool = False) -> None:
        super().__init__(message)
        self.status_code, self.taken = code, taken


@dataclass(frozen=True)
class OtherWay:
    """Runs a cluster by the framework's own kernels. results: (number of the element type, shape) of every output.
    body: a function from the inputs' arrays to the outputs' arrays."""

    results: list[tuple[int, list[int]]]
    body: Callable[[Sequence[Any]], list[Any]]


@dataclass(eq=False)
class Cluster(ABC):
    """What one launch runs. inputs: those in device memory first, then those in host memory. nodes: its ops, each after
    those that it reads. outputs: which results of ops it gives; results: what each of them is. states: the numbers of
    ops with a random state. data: the cluster as bytes, from which `read` makes it again."""

    name: str
    inputs: list[Arg]
    nodes: Sequence[ClusterOp]
    outputs: list[Ref]
    results: list[Arg]
    states: list[int] = field(default_factory=list)
    data: bytes = b""
    because: str = field(default="", kw_only=True)
    """For reports: how it differs from the most similar cluster that the front end made before; empty for none."""
    earlier: Sequence[Signature] = field(default=(), kw_only=True)
    """Of a cluster for several sizes: the signatures for which the front end made clusters for one size before."""
    alone: str = field(default="", kw_only=True)
    """For reports: why it is for one size only, although the front end met others of the same structure."""

    framework = "its framework"
    """The name of the framework, for messages."""
    numbered_inputs = False
    """Whether its inputs are named by number, because the program has no names for them."""

    def line(self, index: int) -> str:
        """The line of the user's program that calls one of its ops, as file:line; empty where it is not known."""
        return ""

    @property
    @abstractmethod
    def content(self) -> str:
        """A digest that is equal for equal computations, whatever their ops are called."""

    @classmethod
    @abstractmethod
    def read(cls, data: bytes) -> Cluster:
        """The cluster with this `data`."""

    def computed(self) -> list[tuple[str, object]]:
        """What it computes, as parts of a recipe's key. A subclass adds the version of its lowerings, because these,
        too, decide what a cluster computes."""
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
        """(numbers of inputs, function) for inputs whose values matter to shapes by one number only, which the function
        computes from them."""
        return []

    def any_shape(self, shapes: Sequence[tuple[int, ...]], values: Sequence[Any | None]) -> AnyShape | None:
        """Of a cluster of one op: how to lower it for all its shapes; None where these shapes need a recipe each."""
        return None

    def is_op_type(self, name: str) -> bool:
        """Whether this is the name of a type of op, from which the framework makes its default names of ops."""
        return False

    def refusal(
        self, shapes: Sequence[Sequence[int]], values: Sequence[Any | None], launched: bool
    ) -> InvalidArguments | None:
        """Of a cluster whose lowering failed, the error that the framework itself raises for these arguments; None
        where it raises none. launched: whether a launch of a graph fails, whose error must name the op."""
        return None

    def other_way(self, shapes: Sequence[Sequence[int]], values: Sequence[Any | None]) -> OtherWay | None:
        """How to run it by the framework's own kernels; None where that cannot be. Raises InvalidArguments."""
        return None
