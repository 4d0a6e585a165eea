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

import operator
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from habana_tf.cluster.cluster import OF_OPS
from habana_tf.cluster.signature import Number, Signature, Slot
from habana_tf.reports.report import Report
from habana_tf.reports.table import Table
from habana_tf.reports.units import between
from habana_tf.resolver import paced_log, real_card_compilation, recompilation_tables
from habana_tf.resolver.real_card_compilation import Band
from habana_tf.resolver.remedies import remedies

MOST_CLUSTERS = 4096
"""Clusters that are remembered, those met last."""
MOST_LINES = 64
"""Lines that are remembered for an op by itself."""
MOST_MET = 64
"""Signatures of a cluster that are remembered, the last ones."""
_MADE = re.compile(r"[/:]|^cluster_")
"""In the name of an input that is the result of an op or of another cluster."""
OWN_RECIPE = ("compiled", "cache")
"""How a recipe came that no earlier signature had (see `Met.recipe`)."""


@dataclass(frozen=True)
class ChangedNumber:
    """A slot that differs from the nearest earlier signature, under the input's name in the user's graph.

    axis None: the rank or a value as a whole; the sizes are then left out. where: what the input is and which layer
    takes it, where its name does not say it.
    """

    input: str
    axis: int | None
    value: bool
    before: int | None
    after: int | None
    where: str = ""

    def __str__(self) -> str:
        if self.input == OF_OPS:
            return f"a length or place that an op takes: {self.before} -> {self.after}"
        where = f"input {self.input!r}" + (f" ({self.where})" if self.where else "")
        if self.axis is None:
            return f"{where}: {'the value' if self.value else 'the rank'} changed"
        return f"{where} {'value' if self.value else 'axis'} {self.axis}: {self.before} -> {self.after}"


@dataclass(frozen=True)
class Met:
    """A signature a cluster met.

    recipe: how its recipe came: "compiled", "cache" (TF_RECIPE_CACHE_PATH had it), "known" (a recipe that is loaded
    serves it), "interpreted", or "cpu" (its framework runs it, see `by_value`).
    range: the symbols of a recipe for a range with their values here; reason: why there is no recipe for a range
    although a size changed, or why the cluster is interpreted. because: see `Cluster.because`.
    """

    signature: Signature
    changed: tuple[ChangedNumber, ...]
    recipe: str
    seconds: float
    range: tuple[tuple[str, int], ...] = ()
    reason: str = ""
    because: str = ""


@dataclass
class History:
    """The last signatures of one cluster. inputs: their names in the user's graph; where: see `ChangedNumber`; scope:
    the layers or the optimizer that most of its ops are of. counts: how the recipes of all signatures came, see
    `Met.recipe`."""

    name: str
    ops: int
    inputs: tuple[str, ...]
    where: tuple[str, ...] = ()
    scope: str = ""
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
            found = [ChangedNumber(self.inputs[k], None, not other, None, None, self.of(k)) for k in other or [0]]
        found = [c for c in found if c.input != OF_OPS] or found  # they mostly follow from the others
        return tuple(sorted(found, key=lambda c: c.value))

    def _change(self, slot: Slot, a: Number, b: Number) -> ChangedNumber:
        before, after = (a, b) if isinstance(a, int) and isinstance(b, int) else (None, None)
        return ChangedNumber(self.inputs[slot.input], slot.axis, slot.value, before, after, self.of(slot.input))

    def remedies(self) -> list[str]:
        """What to do about its changing shapes, and what that saves."""
        called = [f"{name} ({self.of(k)})" if self.of(k) else name for k, name in enumerate(self.inputs)]
        fed = [self.of(k).startswith("item ") or not _MADE.search(name) for k, name in enumerate(self.inputs)]
        return remedies([m.signature for m in self.met], called, fed)

    def of(self, k: int) -> str:
        """Where input `k` comes from and goes to; empty where its name says it."""
        return self.where[k] if self.where else ""


_lock = threading.Lock()
_histories: OrderedDict[str, History] = OrderedDict()
_one_op: dict[str, dict[str, int]] = {}
_lines: dict[str, Counter[str]] = {}


def history(
    key: str, name: str, ops: int, inputs: Sequence[str],
    origin: Callable[[], tuple[Sequence[str], str]] = lambda: ((), ""),
) -> History:  # fmt: skip
    """The history of a cluster; `key` is the same for equal clusters. origin: gives
    `where` and `scope` for a cluster that is new."""
    with _lock:
        fresh = key not in _histories
    where, scope = origin() if fresh else ((), "")
    with _lock:
        if (known := _histories.get(key)) is None:
            known = _histories[key] = History(name, ops, tuple(inputs), tuple(where), scope)
            if len(_histories) > MOST_CLUSTERS:
                _histories.popitem(last=False)
        _histories.move_to_end(key)
        return known


def record(known: History, met: Met) -> None:
    """Remembers a signature; a recompilation is said in one line, see `paced_log`."""
    with _lock:
        if any(m.signature == met.signature for m in known.met):
            return
        known.counts[met.recipe] += 1
        known.met.append(met)
        del known.met[:-MOST_MET]
    if met.recipe == "compiled" and met.because and not met.changed:
        _count()
        line = f"{known.name}: compiled a recipe in {met.seconds * 1e3:.0f} ms; it is new because {met.because}"
        paced_log.say(line, met.seconds)
    elif met.recipe == "compiled" and met.changed:
        _count()
        first, more = met.changed[0], len(met.changed) - 1
        text = f"{known.name} met a new shape, {first}" + (f" and {more} more" if more else "")
        scope = "for every size it may take" if met.range else "for this shape"
        because = f" ({met.reason})" if met.reason else ""
        paced_log.say(f"{text}: compiled a recipe {scope} in {met.seconds * 1e3:.0f} ms{because}", met.seconds)


def _count() -> None:
    from habana_tf._native import _bridge

    _bridge.count_recompiled()


def record_one_op(op: str, recipe: str, line: str = "") -> None:
    """Counts a signature of a cluster of one op. line: of the user's program, that calls it; empty where not known."""
    with _lock:
        counts = _one_op.setdefault(op, {})
        counts[recipe] = counts.get(recipe, 0) + 1
        lines = _lines.setdefault(op, Counter())
        if line and (line in lines or len(lines) < MOST_LINES):
            lines[line] += 1


def single_ops() -> tuple[str, ...]:
    """The ops that ran on the device one by one, eagerly above all; by name."""
    with _lock:
        return tuple(sorted(_one_op))


@dataclass(frozen=True, repr=False)
class RecompilationReport(Report):
    """clusters: those of more than one op, the one met last at the end. one_op: per op how its recipes came; lines: per
    op the lines of the user's program, where these are known, whose calls met them first, and how many.

    `print(report)` shows tables; a notebook shows them too.
    """

    clusters: tuple[History, ...] = ()
    one_op: dict[str, dict[str, int]] = field(default_factory=dict)
    lines: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def compiled(self) -> int:
        """Recipes that were compiled for clusters of more than one op."""
        return sum(c.counts["compiled"] for c in self.clusters)

    @property
    def shape_sets(self) -> int:
        """Sets of input shapes (and of values that fix a shape) that were met, over all clusters and single ops. A
        real card compiles one recipe for each, fewer where it has recipes for ranges of sizes."""
        return sum(c.counts.total() for c in self.clusters) + sum(
            sum(counts.values()) for counts in self.one_op.values()
        )

    @property
    def recipes(self) -> int:
        """Recipes that served them here: compiled, or read from the cache or the package."""
        every = (*(c.counts for c in self.clusters), *self.one_op.values())
        return sum(n for counts in every for how, n in counts.items() if how in OWN_RECIPE)

    @property
    def seconds_on_a_card(self) -> Band:
        """What a real card may take to compile the recipes of all clusters; nothing is published of single ops."""
        each = [real_card_compilation.seconds(c.ops, c.counts.total()) for c in self.clusters]
        return sum(least for least, _ in each), sum(most for _, most in each)

    def summary(self) -> str:
        there = f"a real card: at most {self.shape_sets:,}"
        there += f", {between(*self.seconds_on_a_card)}" if self.clusters else ""
        return f"{self.shape_sets:,} shape sets, {self.recipes:,} recipes here; {there}"

    def to_dict(self) -> dict[str, Any]:
        """{clusters: [{name, ops, recipes: {recipe: count}, earlier, remedies, seconds_on_a_card, signatures:
        [{changed: [{input, where, axis, value, from, to}], because, recipe, ms, range, reason}]}], one_op: {op:
        {recipe: count}}, one_op_lines: {op: {line: count}}, recipes_here, recipes_on_a_card, seconds_on_a_card}; of
        the signatures the last, and `earlier` is how many there were before those. seconds_on_a_card: [least, most]
        to compile, of a cluster for one recipe."""
        clusters = [
            {"name": c.name, "ops": c.ops, "recipes": dict(sorted(c.counts.items())), "earlier": c.earlier,
             "remedies": c.remedies(), "seconds_on_a_card": list(real_card_compilation.seconds(c.ops)),
             "signatures": [_signature(m) for m in c.met]}
            for c in self.clusters
        ]  # fmt: skip
        return {
            "clusters": clusters, "one_op": self.one_op, "one_op_lines": self.lines, "recipes_here": self.recipes,
            "recipes_on_a_card": self.shape_sets, "seconds_on_a_card": list(self.seconds_on_a_card),
        }  # fmt: skip

    def shown(self) -> list[str | Table]:
        return recompilation_tables.shown(self)


def _signature(m: Met) -> dict[str, Any]:
    changed = [
        {"input": c.input, "where": c.where, "axis": c.axis, "value": c.value, "from": c.before, "to": c.after}
        for c in m.changed
    ]  # fmt: skip
    return {
        "changed": changed, "because": m.because, "recipe": m.recipe, "ms": round(m.seconds * 1e3, 3),
        "range": dict(m.range), "reason": m.reason,
    }  # fmt: skip


def recompilation_report() -> RecompilationReport:
    """Which shapes the clusters of this process met, what changed, and what was compiled for it."""
    with _lock:
        clusters = tuple(replace(h, met=list(h.met), counts=Counter(h.counts)) for h in _histories.values() if h.met)
        one_op = {op: dict(counts) for op, counts in sorted(_one_op.items())}
        lines = {op: dict(counts.most_common()) for op, counts in sorted(_lines.items()) if counts}
        return RecompilationReport(clusters, one_op, lines)


def reset() -> None:
    """Forgets everything."""
    with _lock:
        _histories.clear()
        _one_op.clear()
        _lines.clear()
