"""The table of overloads for people: what `habana-tf ops --framework torch` prints and docs/torch-ops.md holds.

Like the table it needs no PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
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


_HEAD = """# PyTorch's overloads that run on HPU

{count} overloads of ATen are computed by programs, {own} more are ops of habana_tf that stand for others (random
numbers with seed and offset as numbers, sequences with their length, layers of an LSTM). Most of what a program calls
comes apart into these: PyTorch does that itself for its composite ops, so that far more functions of `torch` and
`torch.nn` run as programs than there are rows.

Element types: *float* is float32 and bfloat16; *all* is also bool, uint8, int8, int16, int32 and int64, where PyTorch
has the overload for them. Other types (float64, float16, complex numbers, wide unsigned integers) and all other
overloads run on PyTorch's CPU kernels, on the same memory: once with a line that says which and why, and counted in
`placement_report()`. `PT_HPU_PLACE_ON_CPU` keeps overloads there.

What differs from the CPU: denormal numbers count as 0; integers divided by zero give 0 and no error; an index out of
range is a warning, once, and other values that the CPU refuses raise when the program runs, not when the op is called
([Values that the CPU refuses](torch.md#values-that-the-cpu-refuses)); random numbers are those of a Philox stream,
seeded by `torch.manual_seed` or `torch.hpu.manual_seed`, and not the CPU generator's; the statistics that
`native_batch_norm` and `native_layer_norm` return are float32, as on other cards.

This page is made by `habana-tf ops --framework torch --markdown`.

| overload | family | types | read at run time |
|---|---|---|---|
"""


def markdown() -> str:
    """The page docs/torch-ops.md."""
    found = entries()
    own = sum(e.overload.startswith(OWN) for e in found)
    lines = [f"| `{e.overload}` | {e.family} | {e.types} | {_named(e.runtime)} |" for e in found]
    return _HEAD.format(count=len(found) - own, own=own) + "\n".join(lines) + "\n"


def _named(arguments: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in arguments)
