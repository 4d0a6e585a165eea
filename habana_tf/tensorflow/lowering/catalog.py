"""The op table for people: what HPU runs, of which element types, and what to know of each op.

`habana-tf ops` prints it, and `make docs` writes it into `docs/ops.md`. Notes come from the row (inputs
whose values must be known on the host, variables) and from the first sentence of the lowering's docstring, so there is
nothing to keep in step by hand. Needs no TensorFlow.
"""

from __future__ import annotations

from dataclasses import dataclass

from habana_tf.ir.dtypes import DType
from habana_tf.tensorflow.lowering.real_card_ops import known
from habana_tf.tensorflow.lowering.row import ALL, FLOATS, INTS, NUMERIC, Row
from habana_tf.tensorflow.lowering.table import rows

GROUPS = {ALL: "all", NUMERIC: "numeric", INTS: "integer", FLOATS: "float"}


@dataclass(frozen=True)
class OpEntry:
    """One op. types: names of element types per type attribute; notes: sentences; real_card: where it ran with a real
    card (HPU, CPU, not known), and lists what says so."""

    op: str
    types: dict[str, tuple[str, ...]]
    notes: tuple[str, ...]
    real_card: str
    lists: tuple[str, ...]


def entries() -> list[OpEntry]:
    """Every op of the table, by name."""
    made = []
    for name in sorted(rows(), key=str.lower):
        row = rows()[name]
        types = {attr: tuple(names(allowed)) for attr, allowed in row.types.items()}
        real = known(name)
        made.append(OpEntry(name, types, tuple(_notes(row)), real.where.value, real.lists))
    return made


def names(types: tuple[DType, ...]) -> list[str]:
    """TensorFlow's names of element types."""
    return [dtype.label for dtype in types]


def short(row: Row) -> str:
    """The element types of a row in one line: groups where one fits."""
    return "; ".join(f"{attr}: {GROUPS.get(types) or ', '.join(names(types))}" for attr, types in row.types.items())


def _notes(row: Row) -> list[str]:
    out = []
    if row.fixed:
        out.append(f"{_listed(row.fixed)} {'fix' if len(row.fixed) > 1 else 'fixes'} a shape")
    if row.host:
        out.append(f"{_listed(row.host)} read on the host at run time")
    if row.updates:
        out.append(f"updates the variable{'s' * (len(row.updates) > 1)} {_listed(row.updates)}")
    if row.stateful_random:
        out.append("draws TensorFlow's own random stream")
    doc = " ".join((row.lower.__doc__ or "").split("\n\n")[0].split())
    if doc:
        out.append(doc.rstrip("."))
    return out


def _listed(arguments: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in arguments)
