"""The op table: what HPU can run, as data.

One `Row` per TensorFlow op (see `row`): the function that lowers it, the element types it takes, the inputs whose
values fix an output shape, the variables it reads and updates. Everything else follows from it: kernel registrations,
placement, the cluster's signature, the table of supported ops in the docs. Importing this module imports the family
modules, which add their rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node
from habana_tf.lowering import (
    array,
    bins,
    color,
    contraction,
    crops,
    depthwise,
    diagonals,
    indexing,
    layout,
    loss,
    lrn,
    math,
    nn,
    normalization,
    optimizers,
    patches,
    pooling,
    quantization,
    random,
    reduction,
    resize,
    segments,
    slicing,
    special,
    variables,
    xla,
)
from habana_tf.lowering.row import CUSTOM, ROWS, Row
from habana_tf.tensorflow_facts import opdefs

_MODULES = (
    array, bins, color, contraction, crops, depthwise, diagonals, indexing, layout, loss, lrn, math, nn,
    normalization, optimizers, patches, pooling, quantization, random, reduction, resize, segments, slicing,
    special, variables, xla,
)  # fmt: skip
FAMILIES = tuple(module.__name__.rpartition(".")[2] for module in _MODULES)
"""The modules of lowerings: importing them adds their rows."""


@dataclass(frozen=True)
class Registration:
    """One HPU kernel registration: an op, one element type per type attribute, and its host-memory arguments."""

    op: str
    types: tuple[tuple[str, int], ...]
    host: tuple[str, ...]
    in_place: bool


def rows() -> dict[str, Row]:
    """The whole table, by op name, without what the program brings."""
    return ROWS


LOOP = "HpuLoop"
"""A loop in a cluster. TensorFlow has no such op, and no kernel is registered for it."""


def _no_lowering(*_: object) -> list[Node]:
    raise AssertionError("a loop is lowered with its cluster: cluster/loops.py")


_INNER = {LOOP: Row(LOOP, _no_lowering, {}, fixed=("fixed",))}


def lookup(name: str) -> Row | None:
    """The row of an op, or None when HPU does not know it."""
    return CUSTOM.get(name) or ROWS.get(name) or _INNER.get(name)


def registrations() -> list[Registration]:
    """Kernel registrations for every row and every combination of element types that the OpDef allows too.

    Arguments of type int32 live in host memory, by TensorFlow's convention for accelerators, as do those that
    fix a shape.
    """
    return [registration for row in rows().values() for registration in registrations_of(row)]


def registrations_of(row: Row) -> list[Registration]:
    """Those of a row; none of an op that this version of TensorFlow has not. Raises ValueError for type attributes that
    the op has not."""
    facts = opdefs.facts(row.op)
    if facts is None:
        return []
    out = []
    names = [n for n, kind in facts.kinds.items() if kind == "type" and n in row.types]
    missing = set(row.types) - set(names)
    if missing:
        raise ValueError(f"op table: {row.op} has no type attributes {sorted(missing)}")
    choices = [[d for d in row.types[n] if d.tf_enum in facts.allowed.get(n, (d.tf_enum,))] for n in names]
    for combination in product(*choices):
        chosen = dict(zip(names, combination, strict=True))
        host = {*row.fixed, *row.host, *row.host_outputs}
        for arg in facts.arguments():
            if arg.type == opdefs.INT32 or chosen.get(arg.type_attr) is DType.I32:
                host.add(arg.name)
        types = tuple((n, d.tf_enum) for n, d in chosen.items())
        out.append(Registration(row.op, types, tuple(sorted(host)), row.in_place))
    return out
