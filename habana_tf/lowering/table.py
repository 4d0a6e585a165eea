"""The op table: what HPU can run, as data.

One `Row` per TensorFlow op: the function that lowers it, the element types it takes, the inputs whose values
fix an output shape, the variables it reads and updates. Everything else follows from it: kernel registrations,
placement, the cluster's signature, the table of supported ops in the docs. A family module adds rows with `@op`:

    @op("AddV2", T=NUMERIC, generic="elementwise")
    def add(c: Lowering) -> Node:
        return c.b.binary("add", *c.inputs)

A lowering returns one node per output of the op (a single node for one output). An op that updates variables
takes their present values as inputs and returns the new values first, in the order of `updates`, then its outputs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Literal

from ..compiler.dtypes import DType

if TYPE_CHECKING:
    from ..compiler.ir import Node
    from .lower import Lowering

Lower = Callable[["Lowering"], "Node | Sequence[Node]"]
Generic = Literal["elementwise", "same", "channels", "fill", "random"]

FAMILIES = (
    "math", "special", "array", "slicing", "layout", "diagonals", "reduction", "indexing", "bins", "segments",
    "contraction", "depthwise", "nn", "pooling", "patches", "resize", "crops", "color", "normalization", "lrn", "loss",
    "random", "variables", "optimizers", "xla",
)  # fmt: skip

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
    the first have one value per channel, the last axis). stateful_random: draws from a
    Philox state of its own (attrs seed, seed2). variables: resource arguments whose value is read; updates: those
    that are assigned.
    in_place: ring collectives run this op with its output on its first input.
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


@dataclass(frozen=True)
class Registration:
    """One HPU kernel registration: an op, one element type per type attribute, and its host-memory arguments."""

    op: str
    types: tuple[tuple[str, int], ...]
    host: tuple[str, ...]
    in_place: bool


_rows: dict[str, Row] = {}
_loaded = False


def op(
    *names: str,
    fixed: Sequence[str] = (),
    host: Sequence[str] = (),
    host_outputs: Sequence[str] = (),
    generic: Generic | None = None,
    stateful_random: bool = False,
    variables: Sequence[str] = (),
    updates: Sequence[str] = (),
    in_place: bool = False,
    **types: Sequence[DType],
) -> Callable[[Lower], Lower]:
    """Adds a row for each of `names`; keyword arguments are those of `Row`, the rest are type attributes."""

    def add(lower: Lower) -> Lower:
        for name in names:
            if name in _rows:
                raise ValueError(f"{name} has two rows in the op table")
            _rows[name] = Row(
                name, lower, {k: tuple(v) for k, v in types.items()}, tuple(fixed), tuple(host), tuple(host_outputs),
                generic, stateful_random, tuple(variables), tuple(updates), in_place,
            )  # fmt: skip
        return lower

    return add


def rows() -> dict[str, Row]:
    """The whole table, by op name."""
    global _loaded
    if not _loaded:
        for family in FAMILIES:
            importlib.import_module(f"{__package__}.{family}")
        _loaded = True
    return _rows


def lookup(name: str) -> Row | None:
    """The row of an op, or None when HPU does not know it."""
    return rows().get(name)


def registrations() -> list[Registration]:
    """Kernel registrations for every row and every combination of element types that the OpDef allows too.

    Arguments of type int32 live in host memory, by TensorFlow's convention for accelerators, as do those that
    fix a shape.
    """
    from tensorflow.python.framework import op_def_registry

    out = []
    for row in rows().values():
        op_def = op_def_registry.get(row.op)
        if op_def is None:  # not in this version of TensorFlow
            continue
        names = [a.name for a in op_def.attr if a.type == "type" and a.name in row.types]
        missing = set(row.types) - set(names)
        if missing:
            raise ValueError(f"op table: {row.op} has no type attributes {sorted(missing)}")
        allowed = {a.name: a.allowed_values.list.type for a in op_def.attr if a.HasField("allowed_values")}
        args = [(a.name, a.type, a.type_attr) for a in (*op_def.input_arg, *op_def.output_arg)]
        choices = [[d for d in row.types[n] if n not in allowed or d.tf_enum in allowed[n]] for n in names]
        for combination in product(*choices):
            chosen = dict(zip(names, combination, strict=True))
            host = {*row.fixed, *row.host, *row.host_outputs}
            for name, tf_type, type_attr in args:
                if tf_type == DType.I32.tf_enum or chosen.get(type_attr) is DType.I32:
                    host.add(name)
            types = tuple((n, d.tf_enum) for n, d in chosen.items())
            out.append(Registration(row.op, types, tuple(sorted(host)), row.in_place))
    return out
