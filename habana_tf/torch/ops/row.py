"""A row of the table of overloads, and the decorator with which a family module adds one.

    @overload("mul.Tensor", "mul_.Tensor")
    def mul(c: Call, x: Operand, y: Operand) -> Node:
        return c.elementwise("mul", x, y)

A lowering is called with the overload's arguments: a `Node` for a tensor and for a number that is known only at run
time, Python's values for the rest. It returns the overload's own results, then the new values of what it writes beside
its results; of an in-place overload the result is the new value. Results are cast to the types that PyTorch's meta
kernels say, so one lowering serves `add.Tensor` and `add_.Tensor`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, TypeVar

import numpy as np

from habana_tf.cluster.lowering_context import LoweringContext, LoweringError
from habana_tf.formulas.term import Term
from habana_tf.ir.builder import Builder
from habana_tf.ir.conditions import NeedsNumber
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node

Operand = Node | bool | int | float
Lower = Callable[..., "Node | Sequence[Node | None]"]
_Lower = TypeVar("_Lower", bound=Lower)
_Formula = TypeVar("_Formula", bound=Callable[..., "Term | Sequence[Term | None]"])
Result = tuple[tuple[Extent, ...], DType]


@dataclass(frozen=True)
class OverloadRow:
    """What the table knows of one overload.

    runtime: arguments whose numbers are read when a program runs, so that another number is no other program; literal:
    whether one of them stands in the program nevertheless, because it is computed otherwise.
    writes: arguments that it writes and whose annotation in PyTorch's schema does not say so. stock: the overload by
    which other devices have it, where it is one for devices like this only; given: its arguments, from the row's.
    drops: the old contents of its first argument, which it writes, are not read. floats: it takes floating-point
    numbers only; other types have CPU kernels. mixed: it takes types that other cards take and PyTorch's CPU does not:
    integers where that has no kernel for them, float32 beside bfloat16. pictures: positions of operands whose memory
    format, channels last or not, is the result's. in_rows: its results lie row by row however its operands lie.
    amounts: positions of arguments whose numbers are sizes, so that another one may be of one range with it: of a
    padding, say, and not an axis.
    """

    name: str
    lower: Lower
    runtime: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    stock: str = ""
    given: Callable[..., Sequence[Any]] | None = None
    drops: bool = False
    floats: bool = False
    mixed: bool = False
    literal: Callable[[int | float], bool] | None = None
    pictures: tuple[int, ...] = ()
    in_rows: bool = False
    amounts: tuple[int, ...] = ()


ROWS: dict[str, OverloadRow] = {}
"""By overload, of the family modules imported so far."""


def overload(*names: str, **columns: Any) -> Callable[[_Lower], _Lower]:
    """Adds a row for each of `names`; the other arguments are those of `OverloadRow`, which may be lists."""
    given: dict[str, Any] = {k: tuple(value) if isinstance(value, list) else value for k, value in columns.items()}

    def add(lower: _Lower) -> _Lower:
        for name in names:
            if name in ROWS:
                raise ValueError(f"{name} has two rows in the table of overloads")
            ROWS[name] = OverloadRow(name, lower, **given)
        return lower

    return add


def formula(*names: str, floats: bool = True, **columns: Any) -> Callable[[_Formula], _Formula]:
    """Adds a row for each of `names` whose lowering is a formula, of floating-point numbers if nothing else is said.

        formula("silu", "silu_")(lambda x: x * x.sigmoid())

    It gets tensors and numbers that are read at run time as terms in the accumulator type of the first result, all else
    as it is.
    """
    runtime, literal = columns.get("runtime", ()), columns.get("literal") or (lambda n: False)

    def add(fn: _Formula) -> _Formula:
        arguments = fn.__code__.co_varnames[: fn.__code__.co_argcount]

        def operand(c: Call, name: str, x: Any) -> Any:
            number = name in runtime and isinstance(x, (int, float)) and not literal(x)
            return c.term(x) if number or isinstance(x, Node) else x

        @functools.wraps(fn)
        def lower(c: Call, *given: Any, **named: Any) -> Node | Sequence[Node | None]:
            positional = [operand(c, *each) for each in zip(chain(arguments, repeat("")), given, strict=False)]
            made = fn(*positional, **{name: operand(c, name, x) for name, x in named.items()})
            return made.node if isinstance(made, Term) else [t if t is None else t.node for t in made]

        overload(*names, floats=floats, **columns)(lower)
        return fn

    return add


def in_place(name: str) -> str:
    """The name of an overload's in-place form."""
    packet, _, kind = name.partition(".")
    return f"{packet}_.{kind}" if kind else f"{packet}_"


def both(*names: str) -> list[str]:
    """Overloads and their in-place forms."""
    return [form for name in names for form in (name, in_place(name))]


_OF_TRUTHS = {"add": "or", "mul": "and", "max": "or", "min": "and"}
"""What arithmetic on booleans is."""


@dataclass
class Call:
    """One overload being lowered. results: shape and type of each of its results."""

    context: LoweringContext
    name: str
    results: Sequence[Result]

    @property
    def b(self) -> Builder:
        """Makes primitives."""
        return self.context.b

    @property
    def shape(self) -> tuple[Extent, ...]:
        """Of the first result."""
        return self.results[0][0]

    @property
    def dtype(self) -> DType:
        """Of the first result."""
        return self.results[0][1]

    def node(self, x: Operand, dtype: DType) -> Node:
        """An operand in a type; a number becomes a constant."""
        return self.b.cast(x, dtype) if isinstance(x, Node) else self.b.const(x, dtype)

    def term(self, x: Operand, dtype: DType | None = None) -> Term:
        """An operand of a formula, in the accumulator type of `dtype` or of the first result."""
        return Term(self.b, self.node(x, (dtype or self.dtype).accumulator))

    def elementwise(self, fn: str, *operands: Operand) -> Node:
        """A scalar function in the type of the first result."""
        terms = [self.term(x) for x in operands]
        if self.dtype is DType.BOOL:
            fn = _OF_TRUTHS.get(fn, fn)
        if len(terms) == 1:
            return self.b.map(fn, terms[0].node)
        return self.b.binary(fn, terms[0].node, terms[1].node)

    def in_range(
        self, words: str, indices: Node, bound: Extent, given: Node | None = None, refused: bool = False
    ) -> None:
        """Has each launch look whether all indices are in [0, bound). words: type and text of what PyTorch's CPU
        raises, with {index} and {size}. given: the indices as the program has them, where those have been changed.
        refused: as in `LoweringContext.in_range`."""
        b = self.b
        if given is not None and self.context.checks is not None:
            wide, zero = DType.U64, b.const(0, given.dtype)
            inside = b.binary("lt", b.cast(b.cast(indices, DType.I64), wide), b.extent(bound, wide))
            indices = b.select(inside, zero, given)
        self.context.in_range(words, indices, bound, refused=refused)

    def holds(self, words: str, right: Node) -> None:
        """Has each launch look whether something holds everywhere, and fail if it does not. words: as in `in_range`."""
        if self.context.checks is not None and 0 not in right.shape:
            wrong = self.b.select(right, self.b.const(0, DType.I32), self.b.const(1, DType.I32))
            self.in_range(words, wrong, 1, refused=True)

    def refused(self, what: str) -> LoweringError:
        """What to raise for arguments that have no lowering: the op then runs on the CPU."""
        return LoweringError(f"{self.name}: {what} has no lowering")

    def literal(self, values: Sequence[Extent]) -> Node:
        """A vector of int32 that is known, or of sizes."""
        if all(isinstance(n, int) for n in values):
            return self.b.literal(np.array(values, np.int32))
        made = self.b.extents(np.array(values, object), DType.I32)
        self.context.fixed[made] = np.array(values, object)
        return made

    def number(self, n: Extent) -> int:
        """A size that decides what is computed. Raises NeedsNumber for a symbol."""
        if isinstance(n, int):
            return n
        raise NeedsNumber(f"{self.name} is computed otherwise for each {n}")

    def numbers(self, sizes: Sequence[Extent]) -> list[int]:
        """As `number`, of several."""
        return [self.number(n) for n in sizes]
