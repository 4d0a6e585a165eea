"""The primitives: what every TensorFlow op is lowered to, and all that fusion and code generation know.

A `Node` is one tensor value; a `Program` is a graph of them with inputs and outputs. Nodes are made by a `Builder`
(builder.py). Shapes are tuples of extents (an int, or a symbolic `Expr`).

    compute   MAP, REDUCE, CONTRACT, GATHER, SCATTER, RANDOM, SORT, SCAN, PRODUCT (a contraction as data: see `walk`)
    control   LOOP      (a program repeated: see `Loop`)
    foreign   CUSTOM    (a function of a library of the user's: see `Custom`)
    sources   INPUT, CONST, IOTA, EXTENT
    views     RESHAPE, EXPAND, PERMUTE, SLICE, PAD, WINDOW, CONCAT      (never cost a pass of their own unless asked)

All data is row-major. `Builder`'s methods are the reference for each primitive's meaning;
`interpreter.py` is the same in executable form.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent

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

    __hash__ = object.__hash__  # a member is equal to itself alone; an Enum's own takes the time of a call of Python


def check_complete(table: Collection[Op], needed: Iterable[Op], where: str, entry: str) -> None:
    """Raises ImportError where a table forgets a primitive, or has one too many.

    where: the table's file and name. entry: what stands in it for a primitive.
    """
    wanted = set(needed)
    for wrong, what in ((wanted - set(table), f"needs {entry}"), (set(table) - wanted, f"must not have {entry}")):
        if wrong:
            raise ImportError(f"{', '.join(sorted(op.name for op in wrong))} {what} in habana_tf/{where}")


# Scalar functions of MAP by number of operands. Integer arithmetic wraps; `div` on floats is IEEE division, on
# integers truncates; floordiv/floormod follow Python's sign rule; max/min return NaN if either side is NaN. `stored` is
# its operand, rounded to its type where a kernel still has more digits of it.
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
    """One tensor value. Compared by identity; `Builder` makes equal nodes identical.

    origin: the op of the cluster whose lowering made it first, by index, for people; -1 for none. It decides nothing.
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

    def __repr__(self) -> str:
        dims = ",".join(map(str, self.shape))
        return f"{self.op.name.lower()}[{dims}]{self.dtype}" + (f"({self.arg})" if self.arg is not None else "")


@dataclass(frozen=True)
class Contraction:
    """arg of CONTRACT: a label (small int) for each axis of both operands and of the result.

    Labels in both operands and not in the result are summed over; in all three they are batch axes. Each label
    stands once per tensor. Products and sums are kept in `accumulator`; the result is rounded once.
    """

    a: tuple[int, ...]
    b: tuple[int, ...]
    out: tuple[int, ...]
    accumulator: DType = DType.F32


@dataclass(frozen=True)
class Random:
    """arg of RANDOM: how the Philox counters map to elements.

    Element i of the flat output is word i%4 of block i//4; block j stands at counter + (j//run)*skip + j%run
    (a 128-bit sum). With run = skip = 1 the blocks follow each other without a gap.
    """

    run: int = 1
    skip: int = 1


@dataclass(frozen=True)
class Scan:
    kind: str  # "sum" or "prod"
    axis: int
    exclusive: bool
    reverse: bool


@dataclass(frozen=True)
class Sort:
    """first: how many positions of each line are wanted; all of them if None."""

    axis: int
    descending: bool = False
    first: int | None = None


@dataclass(frozen=True)
class Custom:
    """arg of CUSTOM, with the number of one of its outputs: a kernel in C (see `libraries`).

    library: SHA-256 of its file. attrs: (name, "int", "float" or "text", values). outputs: element type and shape of
    each. items: work items; workspace: bytes that they share. All that is asked of the library beforehand is here, so
    that equal nodes compute the same.
    """

    op: str
    library: str
    attrs: tuple[tuple[str, str, tuple[int | float | str, ...]], ...]
    outputs: tuple[tuple[DType, tuple[int, ...]], ...]
    items: int
    workspace: int


@dataclass(frozen=True)
class IndexCheck:
    """What one of a program's last outputs is for: a scalar, the largest of the indices in one argument of an op.

    An index is in range below `bound`. The output is of an unsigned type where a negative index is out of range too:
    it then counts as a large one. origin: the op's number in the cluster. count: how many indices there are; where
    there are none the output says nothing.
    """

    origin: int
    argument: str
    bound: Extent
    count: Extent


@dataclass(eq=False)
class Program:
    """A lowered cluster: what `compile` turns into a recipe.

    `states[i]` is, for random state i, the number of 128-bit Philox samples that one launch reserves. It holds for
    sizes for which all `conditions` are at least 0 (see `conditions`). updates: (input, output) by number: the present
    value of a variable and the one it gets. checks: what the last outputs are for, one each; they are read by the
    runtime and are no outputs of the cluster.
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
        """The outputs behind them, one for each of `checks`."""
        return self.outputs[len(self.outputs) - len(self.checks) :]

    def nodes(self) -> list[Node]:
        """All nodes that an output needs, sources first, in a fixed order."""
        seen: dict[Node, None] = {}
        stack = [(n, False) for n in reversed(self.outputs)]
        while stack:
            node, done = stack.pop()
            if done:
                seen[node] = None
            elif node not in seen:
                stack.append((node, True))
                stack.extend((s, False) for s in reversed(node.src) if s not in seen)
        return list(seen)


Rows = tuple[int, int]
"""(start, step): iteration t works on row start + t * step of a tensor, along its first axis."""


@dataclass(frozen=True, eq=False)
class Loop:
    """arg of LOOP, with the number of one of its outputs: `body` made `trips` times.

    The body's inputs are the values that an iteration leaves to the next one (`carried` of them), then one row of each
    tensor with a row per iteration (`sliced`), then what is the same in all iterations. Its outputs are the values it
    leaves, then one row of each tensor made row by row (`stacked`: each row is made once, so that there are `trips` of
    them). Outputs of the loop are what the last iteration left, and those tensors.

    A loop in `blocks` does all that for each block by itself: the body works on 1 / `blocks` of what it leaves and
    makes, along the first axis of these that is not 1, and of the inputs that `apart` says. The other inputs are the
    same for all blocks; what is carried is apart.
    """

    trips: int
    body: Program
    carried: int
    sliced: tuple[Rows, ...] = ()
    stacked: tuple[Rows, ...] = ()
    blocks: int = 1
    apart: tuple[bool, ...] = ()

    def shapes(self) -> list[Shape]:
        """Of its outputs."""
        made = [whole(n.shape, self.blocks) for n in self.body.outputs]
        return [*made[: self.carried], *((self.trips, *shape) for shape in made[self.carried :])]

    def is_shared(self, k: int) -> bool:
        """Whether input k of its body is the same in all iterations and blocks."""
        return k >= self.carried + len(self.sliced) and not (self.apart and self.apart[k])

    def given(self, k: int) -> Shape:
        """The shape of input k of its body for all blocks."""
        shape = self.body.inputs[k].shape
        return whole(shape, self.blocks) if self.apart and self.apart[k] else shape


def beside(a: Node, b: Node) -> bool:
    """Whether two nodes are outputs of one LOOP or of one CUSTOM."""
    if a.op is not b.op or a.op not in (Op.LOOP, Op.CUSTOM):
        return False
    return a.arg[0] is b.arg[0] if a.op is Op.LOOP else a.arg[0] == b.arg[0] and a.src == b.src


def block_axis(shape: Shape) -> int | None:
    """The axis along which blocks of a tensor follow each other in memory: the first one that is not 1."""
    return next((k for k, n in enumerate(shape) if n != 1), None)


def whole(shape: Shape, blocks: int) -> Shape:
    """The shape of so many blocks together. A block is more than one row."""
    axis = block_axis(shape)
    if blocks == 1 or axis is None:
        return shape
    return (*shape[:axis], ext.mul(shape[axis], blocks), *shape[axis + 1 :])
