"""Records which input shapes each cluster met, what changed from one to the next, and what that cost.

A recipe holds for the shapes it was compiled for, so a new shape may mean a new compilation: this module is the
memory that tells a user which input it was. `resolve` writes a record for each signature (shapes, and the values that
fix shapes) that a cluster meets for the first time; `recompilation_report()` shows them. Signatures are compared
*slot* by slot: a slot is one axis of one input, or one number of an input whose value fixes a shape.

Eager ops are clusters of one op. There can be thousands, so of them only counts per op are kept. Of a cluster the last
signatures are kept, of earlier ones how many there were; and of clusters those that were met last.

Invariant: a signature is recorded after its program is made, and once as long as it is among those that are kept.
"""

from __future__ import annotations

import json
import logging
import operator
import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from habana_tf.cluster.signature import Number, Signature, Slot

log = logging.getLogger("habana_tf")

MOST_CLUSTERS = 4096
"""Clusters that are remembered, those met last."""
MOST_MET = 64
"""Signatures of a cluster that are remembered, the last ones."""


@dataclass(frozen=True)
class ChangedNumber:
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
    serves it), "packaged" (it came with the package), "interpreted", or "cpu" (its framework runs it, see `by_value`).
    range: the symbols of a recipe for a range with their values here; reason: why there is no recipe for a range
    although a size changed, or why the cluster is interpreted.
    """

    signature: Signature
    changed: tuple[ChangedNumber, ...]
    recipe: str
    seconds: float
    range: tuple[tuple[str, int], ...] = ()
    reason: str = ""


@dataclass
class History:
    """The last signatures of one cluster. inputs: their names in the user's graph. counts: how the recipes of all
    signatures came, see `Met.recipe`."""

    name: str
    ops: int
    inputs: tuple[str, ...]
    met: list[Met] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def earlier(self) -> int:
        """How many signatures it met before those in `met`."""
        return self.counts.total() - len(self.met)

    def comparable(self, signature: Signature) -> list[Signature]:
        """The earlier signatures with the same slots."""
        return [m.signature for m in self.met if m.signature.slots == signature.slots and m.signature != signature]

    def nearest(self, signature: Signature) -> Signature | None:
        """The earlier signature with the fewest other numbers, the latest of equal ones."""
        same = self.comparable(signature)
        if not same:
            return self.met[-1].signature if self.met else None
        return min(reversed(same), key=lambda s: sum(map(operator.ne, s.numbers, signature.numbers)))

    def changes(self, signature: Signature) -> tuple[ChangedNumber, ...]:
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
            found = [ChangedNumber(self.inputs[k], None, not other, None, None) for k in other or [0]]
        return tuple(sorted(found, key=lambda c: c.value))

    def _change(self, slot: Slot, a: Number, b: Number) -> ChangedNumber:
        sizes = (a, b) if isinstance(a, int) and isinstance(b, int) else (None, None)
        return ChangedNumber(self.inputs[slot.input], slot.axis, slot.value, *sizes)


_lock = threading.Lock()
_histories: OrderedDict[str, History] = OrderedDict()
_one_op: dict[str, dict[str, int]] = {}


def history(key: str, name: str, ops: int, inputs: Sequence[str]) -> History:
    """The history of a cluster; `key` is the same for equal clusters."""
    with _lock:
        if (known := _histories.get(key)) is None:
            known = _histories[key] = History(name, ops, tuple(inputs))
            if len(_histories) > MOST_CLUSTERS:
                _histories.popitem(last=False)
        _histories.move_to_end(key)
        return known


def record(known: History, met: Met) -> None:
    """Remembers a signature; a recompilation is said in one line."""
    with _lock:
        if any(m.signature == met.signature for m in known.met):
            return
        known.counts[met.recipe] += 1
        known.met.append(met)
        del known.met[:-MOST_MET]
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
    """clusters: those of more than one op, the one met last at the end. one_op: per op how its recipes came.

    `print(report)` shows tables.
    """

    clusters: tuple[History, ...] = ()
    one_op: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def compiled(self) -> int:
        """Recipes that were compiled for clusters of more than one op."""
        return sum(c.counts["compiled"] for c in self.clusters)

    def to_json(self) -> str:
        """{clusters: [{name, ops, recipes: {recipe: count}, earlier, signatures: [{changed: [{input, axis, value, from,
        to}], recipe, ms, range, reason}]}], one_op: {op: {recipe: count}}}; of the signatures the last, and `earlier`
        is how many there were before those."""
        clusters = [
            {"name": c.name, "ops": c.ops, "recipes": dict(sorted(c.counts.items())), "earlier": c.earlier,
             "signatures": [_signature(m) for m in c.met]}
            for c in self.clusters
        ]  # fmt: skip
        return json.dumps({"clusters": clusters, "one_op": self.one_op}, indent=2)

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.table import Table

        table = Table(title="Recompilations", title_justify="left")
        for column in ("cluster", "ops", "what changed", "recipe", "ms", "for"):
            table.add_column(column, justify="right" if column in ("ops", "ms") else "left")
        for c in self.clusters:
            if c.earlier:
                table.add_row(c.name, str(c.ops), f"{c.earlier:,} before these", f"all: {_counted(c.counts)}", "", "")
            for k, m in enumerate(c.met):
                first = k == c.earlier == 0
                name, ops = (c.name, str(c.ops)) if first else ("", "")
                what = "first seen" if first else "\n".join(map(str, m.changed[:4]))
                what += f"\nand {len(m.changed) - 4} more" if len(m.changed) > 4 else ""
                sizes = ", ".join(f"{s} = {n}" for s, n in m.range)
                scope = f"a range, here {sizes}" if sizes else m.reason or "these shapes"
                table.add_row(name, ops, what, m.recipe, f"{m.seconds * 1e3:.0f}", scope)
        counts: Counter[str] = Counter()
        for each in self.one_op.values():
            counts.update(each)
        shown = _counted(counts) or "none"
        return Group(table, f"Single ops: {len(self.one_op)} kinds; signatures by recipe: {shown}.")

    def __str__(self) -> str:
        from io import StringIO

        from rich.console import Console

        out = StringIO()
        Console(file=out, width=120, color_system=None, force_jupyter=False).print(self.__rich__())
        return out.getvalue()


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{n:,} {recipe}" for recipe, n in sorted(counts.items()))


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
        clusters = tuple(replace(h, met=list(h.met), counts=Counter(h.counts)) for h in _histories.values() if h.met)
        return RecompilationReport(clusters, {op: dict(counts) for op, counts in sorted(_one_op.items())})


def reset() -> None:
    """Forgets everything."""
    with _lock:
        _histories.clear()
        _one_op.clear()
