"""A row of the op table, and the decorator with which a family module adds one.

    @op("AddV2", T=NUMERIC, generic="elementwise")
    def add(c: Lowering) -> Node:
        return c.b.binary("add", *c.inputs)

A lowering returns one node per output of the op (a single node for one output). An op that updates variables
takes their present values as inputs and returns the new values first, in the order of `updates`, then its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from habana_tf.ir.dtypes import DType

if TYPE_CHECKING:
    from habana_tf.ir.primitives import Node

Lower = Callable[..., "Node | Sequence[Node]"]
"""A lowering: takes the `lowering.Lowering` of the op at hand."""
Bf16List = Literal["allow", "conditional", "strict"]
Generic = Literal["elementwise", "same", "channels", "rows", "padding", "fill", "random"]

FLOATS = (DType.F32, DType.BF16)
INTS = (DType.I8, DType.U8, DType.I16, DType.U16, DType.I32, DType.U32, DType.I64, DType.U64)
NUMERIC = FLOATS + INTS
ALL = (*NUMERIC, DType.BOOL)
INDEX = (DType.I32, DType.I64)


@dataclass(frozen=True)
class Row:
    """What the table knows of one TensorFlow op.

    types: allowed element types per type attribute. fixed: input arguments (OpDef names) whose values fix an
    output shape; they live in host memory and enter the signature. host: further arguments read from host memory
    at run time. host_outputs: outputs left in host memory whatever their type. generic: eager launches share one
    recipe over all shapes ("same": if its inputs have one shape; they do not broadcast; "channels": if all inputs but
    the first have one value per channel, the last axis; "rows": if its one input is walked row by row, along the last
    axis; "padding": if its first input is padded by the fixed one). stateful_random: draws from a
    Philox state of its own (attrs seed, seed2). variables: resource arguments whose value is read; updates: those
    that are assigned.
    counts: of an op whose first fixed argument is data but for one number, which decides a shape: counts that from the
    values of the argument (see `counts`).
    in_place: ring collectives run this op with its output on its first input.
    bf16: the list of the built-in bf16 configurations that the op is in, of one that they cannot know. content: what
    its lowering computes, as a digest for keys, of one that is no source of ours.
    """

    op: str
    lower: Lower
    types: dict[str, tuple[DType, ...]]
    fixed: tuple[str, ...] = ()
    host: tuple[str, ...] = ()
    host_outputs: tuple[str, ...] = ()
    generic: Generic | None = None
    stateful_random: bool = False
    variables: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    in_place: bool = False
    bf16: Bf16List | None = None
    content: Callable[[], str] | None = None
    counts: Callable[[Sequence[Any]], int] | None = None


ROWS: dict[str, Row] = {}
"""By op, of the family modules imported so far; `table` has them all."""
CUSTOM: dict[str, Row] = {}
"""By op, those that the program brings (`habana_tf/custom`). One takes the place of ours."""


def op(*names: str, **columns: Any) -> Callable[[Lower], Lower]:
    """Adds a row for each of `names`; keyword arguments are those of `Row`, the rest are type attributes."""
    given: dict[str, Any] = {k: tuple(value) if isinstance(value, list) else value for k, value in columns.items()}
    types = {name: tuple(given.pop(name)) for name in columns if name not in Row.__dataclass_fields__}

    def add(lower: Lower) -> Lower:
        for name in names:
            if name in ROWS:
                raise ValueError(f"{name} has two rows in the op table")
            ROWS[name] = Row(name, lower, types, **given)
        return lower

    return add
