"""Which input shapes each cluster met, what changed from one to the next, and what that cost.

A recipe holds for the shapes it was compiled for, so a new shape may mean a new compilation: this module is the
memory that tells a user which input it was. `resolve` writes a record for each signature (shapes, and the values that
fix shapes) that a cluster meets for the first time; `recompilation_report()` shows them. Signatures are compared
*slot* by slot: a slot is one axis of one input, or one number of an input whose value fixes a shape.

Eager ops are clusters of one op. There can be thousands, so of them only counts per op are kept.

Invariant: a signature is recorded after its program is made, once.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

log = logging.getLogger("habana_tf")

MOST_NUMBERS = 64
"""Numbers of an input's value that are compared one by one; a longer value is one slot."""

Number = int | bytes


@dataclass(frozen=True)
class Slot:
    """One number of a signature: size of `axis` of an input, or with `value` the number at `axis` of its value.

    axis None: the value as a whole.
    """

    input: int
    axis: int | None
    value: bool = False


@dataclass(frozen=True)
class Signature:
    """Numbers slot by slot. Signatures are comparable when their slots are the same (the ranks, above all)."""

    slots: tuple[Slot, ...]
    numbers: tuple[Number, ...]

    @classmethod
    def of(cls, shapes: Sequence[Sequence[int]], values: Sequence[Any | None]) -> Signature:
        """values: NumPy arrays of the inputs that fix shapes, None for the others."""
        slots: list[Slot] = []
        numbers: list[Number] = []
        for k, (shape, value) in enumerate(zip(shapes, values, strict=True)):
            slots.extend(Slot(k, axis) for axis in range(len(shape)))
            numbers.extend(shape)
            if value is None:
                continue
            if value.dtype.kind == "i" and value.size <= MOST_NUMBERS:
                slots.extend(Slot(k, at, True) for at in range(value.size))
                numbers.extend(int(n) for n in value.reshape(-1))
            else:
                slots.append(Slot(k, None, True))
                numbers.append(value.tobytes())
        return cls(tuple(slots), tuple(numbers))


@dataclass(frozen=True)
class Change:
    """A slot that differs from the nearest earlier signature, under the input's name in the user's graph.

    axis None: the rank or a value as a whole; the sizes are then left out.
    """

    input: str
    axis: int | None
    value: bool
    before: int | None
    after: int | None

    def __str__(self) -> str:
        where = f"input {self.input!r}"
        if self.axis is None:
            return f"{where}: {'the value' if self.value else 'the rank'} changed"
        return f"{where} {'value' if self.value else 'axis'} {self.axis}: {self.before} -> {self.after}"


@dataclass(frozen=True)
class Met:
    """A signature a cluster met.

    recipe: how its recipe came: "compiled", "cache" (TF_RECIPE_CACHE_PATH had it), "known" (a recipe that is loaded
    serves it), or "interpreted". range: the symbols of a recipe for a range with their values here; reason: why there
    is no recipe for a range although a size changed, or why the cluster is interpreted.
    """

    signature: Signature
    changed: tuple[Change, ...]
    recipe: str
    seconds: float
    range: tuple[tuple[str, int], ...] = ()
    reason: str = ""


@dataclass
class History:
    """The signatures of one cluster. inputs: their names in the user's graph."""

    name: str
    ops: int
    inputs: tuple[str, ...]
    met: list[Met] = field(default_factory=list)

    def comparable(self, signature: Signature) -> list[Signature]:
        """The earlier signatures with the same slots."""
        return [m.signature for m in self.met if m.signature.slots == signature.slots and m.signature != signature]

    def nearest(self, signature: Signature) -> Signature | None:
        """The earlier signature with the fewest other numbers, the latest of equal ones."""
        same = self.comparable(signature)
        if not same:
            return self.met[-1].signature if self.met else None
        return min(reversed(same), key=lambda s: sum(a != b for a, b in zip(s.numbers, signature.numbers, strict=True)))

    def changes(self, signature: Signature) -> tuple[Change, ...]:
        """What is new about a signature; inputs of which the size changed come before those of other values."""
        before = self.nearest(signature)
        if before is None:
            return ()
        if before.slots == signature.slots:
            pairs = zip(signature.slots, before.numbers, signature.numbers, strict=True)
            found = [self._change(slot, a, b) for slot, a, b in pairs if a != b]
        else:
            ranks = [[s.input for s in x.slots if not s.value] for x in (before, signature)]
            other = [k for k in range(len(self.inputs)) if ranks[0].count(k) != ranks[1].count(k)]
            found = [Change(self.inputs[k], None, not other, None, None) for k in other or [0]]
        return tuple(sorted(found, key=lambda c: c.value))

    def _change(self, slot: Slot, a: Number, b: Number) -> Change:
        sizes = (a, b) if isinstance(a, int) and isinstance(b, int) else (None, None)
        return Change(self.inputs[slot.input], slot.axis, slot.value, *sizes)


_lock = threading.Lock()
_histories: dict[str, History] = {}
_one_op: dict[str, dict[str, int]] = {}


def history(key: str, name: str, ops: int, inputs: Sequence[str]) -> History:
    """The history of a cluster; `key` is the same for equal clusters."""
    with _lock:
        return _histories.setdefault(key, History(name, ops, tuple(inputs)))


def record(known: History, met: Met) -> None:
    """Remembers a signature; a recompilation is said in one line."""
    with _lock:
        if any(m.signature == met.signature for m in known.met):
            return
        known.met.append(met)
    if met.recipe == "compiled" and met.changed:
        first, more = met.changed[0], len(met.changed) - 1
        text = f"{known.name} met a new shape, {first}" + (f" and {more} more" if more else "")
        scope = "for every size it may take" if met.range else "for this shape"
        because = f" ({met.reason})" if met.reason else ""
        log.info("%s: compiled a recipe %s in %.0f ms%s", text, scope, met.seconds * 1e3, because)


def record_one_op(op: str, recipe: str) -> None:
    """Counts a signature of a cluster of one op."""
    with _lock:
        counts = _one_op.setdefault(op, {})
        counts[recipe] = counts.get(recipe, 0) + 1


@dataclass(frozen=True)
class RecompilationReport:
    """clusters: those of more than one op, in the order they first ran. one_op: per op how its recipes came.

    `print(report)` shows tables.
    """

    clusters: tuple[History, ...] = ()
    one_op: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def compiled(self) -> int:
        """Recipes that were compiled for clusters of more than one op."""
        return sum(m.recipe == "compiled" for c in self.clusters for m in c.met)

    def to_json(self) -> str:
        """{clusters: [{name, ops, signatures: [{changed: [{input, axis, value, from, to}], recipe, ms, range,
        reason}]}], one_op: {op: {recipe: count}}}"""
        clusters = [
            {"name": c.name, "ops": c.ops, "signatures": [_signature(m) for m in c.met]} for c in self.clusters
        ]  # fmt: skip
        return json.dumps({"clusters": clusters, "one_op": self.one_op}, indent=2)

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.table import Table

        table = Table(title="Recompilations", title_justify="left")
        for column in ("cluster", "ops", "what changed", "recipe", "ms", "for"):
            table.add_column(column, justify="right" if column in ("ops", "ms") else "left")
        for c in self.clusters:
            for k, m in enumerate(c.met):
                name, ops = (c.name, str(c.ops)) if k == 0 else ("", "")
                what = "\n".join(map(str, m.changed[:4])) if k else "first seen"
                what += f"\nand {len(m.changed) - 4} more" if len(m.changed) > 4 else ""
                sizes = ", ".join(f"{s} = {n}" for s, n in m.range)
                scope = f"a range, here {sizes}" if sizes else m.reason or "these shapes"
                table.add_row(name, ops, what, m.recipe, f"{m.seconds * 1e3:.0f}", scope)
        counts: dict[str, int] = {}
        for each in self.one_op.values():
            for recipe, n in each.items():
                counts[recipe] = counts.get(recipe, 0) + n
        shown = ", ".join(f"{n} {recipe}" for recipe, n in sorted(counts.items())) or "none"
        return Group(table, f"Single ops: {len(self.one_op)} kinds; signatures by recipe: {shown}.")

    def __str__(self) -> str:
        from io import StringIO

        from rich.console import Console

        out = StringIO()
        Console(file=out, width=120).print(self.__rich__())
        return out.getvalue()


def _signature(m: Met) -> dict[str, Any]:
    changed = [
        {"input": c.input, "axis": c.axis, "value": c.value, "from": c.before, "to": c.after} for c in m.changed
    ]  # fmt: skip
    return {
        "changed": changed, "recipe": m.recipe, "ms": round(m.seconds * 1e3, 3), "range": dict(m.range),
        "reason": m.reason,
    }  # fmt: skip


def recompilation_report() -> RecompilationReport:
    """Which shapes the clusters of this process met, what changed, and what was compiled for it."""
    with _lock:
        clusters = tuple(History(h.name, h.ops, h.inputs, list(h.met)) for h in _histories.values() if h.met)
        return RecompilationReport(clusters, {op: dict(counts) for op, counts in sorted(_one_op.items())})


def reset() -> None:
    """Forgets everything."""
    with _lock:
        _histories.clear()
        _one_op.clear()
