"""The recompilation report as texts and tables: one table for each cluster, with what to do below it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from habana_tf.reports.table import Table
from habana_tf.reports.units import between, duration
from habana_tf.resolver.real_card_compilation import seconds

MOST_CHANGES = 4
"""Changed sizes of a signature that are shown."""
MOST_LINES = 10
"""Lines with single ops that are shown."""
MOST_CLUSTERS = 20
"""Clusters that are shown, those met last; all are in `to_dict()`."""


def shown(report: Any) -> list[str | Table]:
    """What `print` shows of a RecompilationReport."""
    out: list[str | Table] = [
        f"Recompilations: {report.shape_sets:,} shape sets were met. Recipes here: {report.recipes:,}.",
        _there(report),
    ]
    if (hidden := len(report.clusters) - MOST_CLUSTERS) > 0:
        out.append(f"{hidden:,} clusters that were met before these are left out; to_dict() has them")
    for c in report.clusters[-MOST_CLUSTERS:]:
        out += _cluster(c)
    counts: Counter[str] = Counter()
    for each in report.one_op.values():
        counts.update(each)
    out.append(f"Single ops: {len(report.one_op)} kinds; signatures by recipe: {counted(counts) or 'none'}.")
    lines = sorted(((n, op, line) for op, of in report.lines.items() for line, n in of.items()), reverse=True)
    if often := [row for row in lines if row[0] > 1][:MOST_LINES]:
        out.append(Table([">signatures", "op", "at"], often, "Single ops that one line calls with several shapes"))
    return out


def _there(report: Any) -> str:
    """How many recipes a real card compiles for the same run, and how long that may take."""
    every, of = report.shape_sets, sum(c.counts.total() for c in report.clusters)
    text = "A real card compiles one for each set, fewer where it has recipes for ranges of sizes: at most "
    text += f"{every:,} recipe{'' if every == 1 else 's'}"
    if not of:
        return text + "."
    one = of == 1
    which = ", which" if of == every else "; that of clusters" if one else f"; the {of:,} of clusters"
    took = between(*report.seconds_on_a_card)
    return f"{text}{which} {'takes' if one else 'take'} {took} (docs/recompilations.md)."


def _cluster(c: Any) -> list[str | Table]:
    rows = []
    if c.earlier:
        rows.append((f"{c.earlier:,} before these", f"all: {counted(c.counts)}", "", ""))
    for k, m in enumerate(c.met):
        what = (m.because or "first seen") if k == c.earlier == 0 else "\n".join(map(str, m.changed[:MOST_CHANGES]))
        what += f"\nand {len(m.changed) - MOST_CHANGES} more" if len(m.changed) > MOST_CHANGES else ""
        sizes = ", ".join(f"{s} = {n}" for s, n in m.range)
        scope = f"a range, here {sizes}" if sizes else m.reason or "these shapes"
        rows.append((what, m.recipe, duration(m.seconds), scope))
    title = f"{c.name}, {c.ops} ops" + (f", in {c.scope}" if c.scope else "")
    title += f"; a recipe takes a real card {between(*seconds(c.ops))}"
    advice = [f"would help: {text}" for text in c.remedies()]
    return [Table(["what changed", "recipe", ">took", "recipe for"], rows, title), *advice]


def counted(counts: Counter[str]) -> str:
    """2 compiled, 3 known"""
    return ", ".join(f"{n:,} {recipe}" for recipe, n in sorted(counts.items()))
