"""The intermediate representation: some twenty tensor primitives, to which every op is lowered.

A `Node` is one tensor value; a `Program` is a graph of them with inputs and outputs. A `Builder` (builder.py) makes
nodes. Shapes are tuples of extents (an int, or a symbolic `Expr`).

    compute   MAP, REDUCE, CONTRACT, GATHER, SCATTER, RANDOM, SORT, SCAN, PRODUCT (a contraction with run-time sizes and
              strides: see `loop_nest`)
    control   LOOP      (a program repeated: see `Loop`)
    foreign   CUSTOM    (a kernel in C of the user's: see `Custom`)
    sources   INPUT, CONST, IOTA, EXTENT
    views     RESHAPE, EXPAND, PERMUTE, SLICE, PAD, WINDOW, CONCAT      (folded into the kernels that read them)

All data is row-major. `Builder`'s methods define the primitives, `interpreter.py` does so in executable form.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, TypeVar

from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent

T = TypeVar("T")
Shape = tuple[Extent, ...]


class Op(Enum):
    INPUT = auto()
    CONST = auto()
    IOTA = auto()
    EXTENT = auto()
    MAP = auto()
    REDUCE = auto()
    CONTRACT = auto()
    GATHER = auto()
    SCATTER = auto()
    RANDOM = auto()
    SORT = auto()
    SCAN = auto()
    PRODUCT = auto()
    RESHAPE = auto()
    EXPAND = auto()
    PERMUTE = auto()
    SLICE = auto()
    PAD = auto()
    WINDOW = auto()
    CONCAT = auto()
    LOOP = auto()
    CUSTOM = auto()

    __hash__ = object.__hash__  # members are compared by identity; Enum's own hash is a Python call


def check_complete(table: Collection[Op], needed: Iterable[Op], where: str, entry: str) -> None:
    """Raises ImportError where a table lacks a primitive, or has one too many.

    where: the table's file and name. entry: what a primitive's entry is.
    """
    wanted = set(needed)
    for wrong, what in ((wanted - set(table), f"needs {entry}"), (set(table) - wanted, f"must not have {entry}")):
        if wrong:
            raise ImportError(f"{', '.join(sorted(op.name for op in wrong))} {what} in habana_tf/{where}")


# Scalar functions of MAP by number of operands. Integer arithmetic wraps; `div` is IEEE division of floats, for
# integers it truncates; floordiv/floormod follow Python's sign rule; max/min return NaN if either side is NaN. `stored`
# rounds a value to its own type, where a kernel holds it in higher precision.
UNARY = frozenset(
    (
        "neg abs sign exp expm1 log log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh asinh acosh atanh tanh "
        "sigmoid erf erfc lgamma floor ceil rint trunc isnan isinf isfinite not invert cast bitcast stored"
    ).split()
)
BINARY = frozenset(
    ("add sub mul div floordiv floormod truncmod pow atan2 max min eq ne lt le gt ge and or xor shl shr mulhi").split()
)
COMPARE = frozenset(["eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite"])
REDUCTIONS = frozenset(["sum", "prod", "max", "min", "argmax", "argmin"])


@dataclass(frozen=True, eq=False)
class Node:
    """One tensor value. Compared by identity; `Builder` shares equal nodes.

    origin: for reports: the number of the op whose lowering made it first; -1 for none. No code depends on it.
    """

    op: Op
    src: tuple[Node, ...]
    shape: Shape
    dtype: DType
    arg: Any = None
    origin: int = -1

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> Extent:
        return ext.product(self.shape)

    @property
    def nbytes(self) -> Extent:
        return ext.mul(self.numel, self.dtype.bytes)

    def __repr__(self) -> str:
        dims = ",".join(map(str, self.shape))
        return f"{self.op.name.lower()}[{dims}]{self.dtype}" + (f"({self.arg})" if self.arg is not None else "")


@dataclass(frozen=True)
class Contraction:
    """arg of CONTRACT: a label (small int) for each axis of both operands and of the result.

    Labels of both operands but not of the result are summed over; those of all three are batch axes. A label occurs
    once per tensor. Products and sums have the type `accumulator`; the result is rounded once.

    largest: of operands in float8_e4m3fn, where a chip's format ends below 448: what is beyond counts as NaN.
    """

    a: tuple[int, ...]
    b: tuple[int, ...]
    out: tuple[int, ...]
    accumulator: DType = DType.F32
    largest: float | None = None


@dataclass(frozen=True)
class Random:
    """arg of RANDOM: which Philox block each element comes from.

    Element i of the flat output is word i%4 of block i//4; block j has the counter start + (j//run)*skip + j%run
    (128 bits). With run = skip = 1 blocks are consecutive.
    """

    run: int = 1
    skip: int = 1


@dataclass(frozen=True)
class Scan:
    """arg of SCAN. kind: "sum" or "prod"."""

    kind: str
    axis: int
    exclusive: bool
    reverse: bool


@dataclass(frozen=True)
class Sort:
    """arg of SORT. first: how many positions of each line to give (top-k); None for all."""

    axis: int
    descending: bool = False
    first: int | None = None


@dataclass(frozen=True)
class Custom:
    """arg of CUSTOM, together with the number of one of its outputs: a kernel in C (see `libraries`).

    library: SHA-256 of its file. attrs: (name, "int", "float" or "text", values). outputs: element type and shape of
    each. items: work items; workspace: bytes that they share. The library's answers are recorded here, so that equal
    nodes compute the same.
    """

    op: str
    library: str
    attrs: tuple[tuple[str, str, tuple[int | float | str, ...]], ...]
    outputs: tuple[tuple[DType, tuple[int, ...]], ...]
    items: int
    workspace: int


@dataclass(frozen=True)
class IndexCheck:
    """A bounds check, made at run time on one of a program's last outputs: the largest index in an op's argument.

    Indices must be below `bound`. The output is unsigned where negative indices are errors, too: they are large then.
    origin: the op's number in the cluster. count: number of indices; if it is 0 the output is meaningless. refused:
    whether a launch that meets such an index fails, and not only warns.
    """

    origin: int
    argument: str
    bound: Extent
    count: Extent
    refused: bool = False


@dataclass(eq=False)
class Program:
    """A lowered cluster, the input of the compiler.

    states[i]: the number of 128-bit Philox samples of random state i that a launch consumes. conditions: expressions
    that are at least 0 for the sizes it serves (see `conditions`). updates: (input, output) by number, the old and the
    new value of a variable. checks: one for each of the last outputs, which the runtime reads and which are no outputs
    of the cluster.
    """

    inputs: list[Node]
    outputs: list[Node]
    states: list[Extent] = field(default_factory=list)
    conditions: tuple[ext.Expr, ...] = ()
    updates: tuple[tuple[int, int], ...] = ()
    checks: tuple[IndexCheck, ...] = ()

    @property
    def results(self) -> list[Node]:
        """The outputs of the cluster."""
        return self.outputs[: len(self.outputs) - len(self.checks)]

    @property
    def checked(self) -> list[Node]:
        """The outputs that the runtime checks, one for each of `checks`."""
        return self.outputs[len(self.outputs) - len(self.checks) :]

    def nodes(self) -> list[Node]:
        """All nodes that the outputs need in topological order, sources first."""
        return postorder(self.outputs, lambda n: n.src)


def postorder(roots: Sequence[T], sources: Callable[[T], Sequence[T]]) -> list[T]:
    """The roots and all that they depend on, sources first, depth first. No recursion: chains may be very long."""
    done: dict[T, None] = {}
    stack = [(x, False) for x in reversed(roots)]
    while stack:
        x, ready = stack.pop()
        if ready:
            done[x] = None
        elif x not in done:
            stack.append((x, True))
            stack.extend((s, False) for s in reversed(sources(x)) if s not in done)
    return list(done)


def users_of(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """The nodes that read each node."""
    users: dict[Node, list[Node]] = {}
    for n in nodes:
        for s in n.src:
            users.setdefault(s, []).append(n)
    return users


def with_sources(node: Node, src: tuple[Node, ...]) -> Node:
    """The node with other sources; the node itself if they are the same."""
    return node if all(a is b for a, b in zip(src, node.src, strict=True)) else replace(node, src=src)


Rows = tuple[Extent, int]
"""(start, step): iteration t uses row start + t * step along a tensor's first axis."""


@dataclass(frozen=True, eq=False)
class Loop:
    """arg of LOOP, together with the number of one of its outputs: `body` is run `trips` times (as jax.lax.scan does).

    The body's inputs are the carried values (`carried` of them), then a row of each sliced tensor (`sliced`), then loop
    invariants. Its outputs are the next carried values, then a row of each stacked tensor (`stacked`; each of its
    `trips` rows is written once). The loop's outputs are the last carried values and the stacked tensors.

    With `blocks` the loop is also split into independent parts, which may run at the same time: the body works on
    1 / `blocks` of its outputs, along their first axis that is not 1, and of the inputs that `apart` marks (all carried
    ones are). The other inputs are shared by all blocks.
    """

    trips: Extent
    body: Program
    carried: int
    sliced: tuple[Rows, ...] = ()
    stacked: tuple[Rows, ...] = ()
    blocks: int = 1
    apart: tuple[bool, ...] = ()

    def shapes(self) -> list[Shape]:
        """The shapes of its outputs."""
        made = [whole(n.shape, self.blocks) for n in self.body.outputs]
        return [*made[: self.carried], *((self.trips, *shape) for shape in made[self.carried :])]

    def is_shared(self, k: int) -> bool:
        """Whether input k of the body is invariant over iterations and blocks."""
        return k >= self.carried + len(self.sliced) and not (self.apart and self.apart[k])

    def given(self, k: int) -> Shape:
        """The shape of input k of the body for all blocks together."""
        shape = self.body.inputs[k].shape
        return whole(shape, self.blocks) if self.apart and self.apart[k] else shape


def beside(a: Node, b: Node) -> bool:
    """Whether two nodes are outputs of one LOOP or of one CUSTOM."""
    if a.op is not b.op or a.op not in (Op.LOOP, Op.CUSTOM):
        return False
    return a.arg[0] is b.arg[0] if a.op is Op.LOOP else a.arg[0] == b.arg[0] and a.src == b.src


def block_axis(shape: Shape) -> int | None:
    """The axis along which a tensor is cut into contiguous blocks: the first one that is not 1."""
    return next((k for k, n in enumerate(shape) if n != 1), None)


def whole(shape: Shape, blocks: int) -> Shape:
    """The shape of all blocks together, given that of one (of more than one row)."""
    axis = block_axis(shape)
    if blocks == 1 or axis is None:
        return shape
    return (*shape[:axis], ext.mul(shape[axis], blocks), *shape[axis + 1 :])
