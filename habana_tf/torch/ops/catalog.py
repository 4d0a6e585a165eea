"""The table of overloads for people: what `habana-tf ops --framework torch` prints and docs/torch-ops.md holds.

Like the table it needs no PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass

from habana_tf.torch.ops.table import rows

OWN = "habana_tf::"


@dataclass(frozen=True)
class OverloadEntry:
    """One row. family: the module of habana_tf/torch/ops with its lowering. types: that programs compute it in.
    runtime: arguments whose numbers are read when a program runs, so that another number is no other program."""

    overload: str
    family: str
    types: str
    runtime: tuple[str, ...]


def entries() -> list[OverloadEntry]:
    """Every overload of the table, by name."""
    made = []
    for name in sorted(rows(), key=lambda n: (n.startswith(OWN), n.strip("_").lower(), n)):
        row = rows()[name]
        family = row.lower.__module__.rpartition(".")[2]
        made.append(OverloadEntry(name, family, "float" if row.floats else "all", tuple(sorted(row.runtime))))
    return made
