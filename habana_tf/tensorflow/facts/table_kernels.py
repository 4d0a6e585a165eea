"""The kernels of the op table: one per row and combination of element types."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from habana_tf.ir.dtypes import DType
from habana_tf.tensorflow.facts import opdefs
from habana_tf.tensorflow.lowering.row import Row
from habana_tf.tensorflow.lowering.table import rows


@dataclass(frozen=True)
class TableKernel:
    """A kernel that HPU registers: an op, one element type per type attribute, and its host-memory arguments."""

    op: str
    types: tuple[tuple[str, int], ...]
    host: tuple[str, ...]
    in_place: bool


def all_of_table() -> list[TableKernel]:
    """Kernels for every row and every combination of element types that the OpDef allows too.

    Arguments of type int32 live in host memory, by TensorFlow's convention for accelerators, as do those that
    fix a shape.
    """
    return [kernel for row in rows().values() for kernel in of_row(row)]


def of_row(row: Row) -> list[TableKernel]:
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
    choices = [[d for d in row.types[n] if d.number in facts.allowed.get(n, (d.number,))] for n in names]
    for combination in product(*choices):
        chosen = dict(zip(names, combination, strict=True))
        host = {*row.fixed, *row.host, *row.host_outputs}
        for arg in facts.arguments():
            if arg.type == opdefs.INT32 or chosen.get(arg.type_attr) is DType.I32:
                host.add(arg.name)
        types = tuple((n, d.number) for n, d in chosen.items())
        out.append(TableKernel(row.op, types, tuple(sorted(host)), row.in_place))
    return out
