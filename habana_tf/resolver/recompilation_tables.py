"""The recompilation report as texts and tables: one table for each cluster, with what to do below it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from habana_tf.reports.table import Table
from habana_tf.reports.units import duration

MOST_CHANGES = 4
"""Changed sizes of a signature that are shown."""
MOST_CLUSTERS = 20
"""Clusters that are shown, those met last; all are in `to_dict()`."""


def shown(report: Any) -> list[str | Table]:
    """What `print` shows of a RecompilationReport."""
    out: list[str | Table] = [
        f"Recompilations: {report.shape_sets:,} shape sets were met. Recipes here: {report.recipes:,}. A card, which"
        f" has no recipes for ranges of sizes unless asked, compiles one for each set: {report.shape_sets:,}."
    ]
    if (hidden := len(report.clusters) - MOST_CLUSTERS) > 0:
        out.append(f"{hidden:,} clusters that were met before these are left out; to_dict() has them")
    for c in report.clusters[-MOST_CLUSTERS:]:
        out += _cluster(c)
    counts: Counter[str] = Counter()
    for each in report.one_op.values():
        counts.update(each)
    out.append(f"Single ops: {len(report.one_op)} kinds; signatures by recipe: {counted(counts) or 'none'}.")
    return out


def _cluster(c: Any) -> list[str | Table]:
    rows = []
    if c.earlier:
        rows.append((f"{c.earlier:,} before these", f"all: {counted(c.counts)}", "", ""))
    for k, m in enumerate(c.met):
        what = "first seen" if k == c.earlier == 0 else "\n".join(map(str, m.changed[:MOST_CHANGES]))
        what += f"\nand {len(m.changed) - MOST_CHANGES} more" if len(m.changed) > MOST_CHANGES else ""
        sizes = ", ".join(f"{s} = {n}" for s, n in m.range)
        scope = f"a range, here {sizes}" if sizes else m.reason or "these shapes"
        rows.append((what, m.recipe, duration(m.seconds), scope))
    title = f"{c.name}, {c.ops} ops" + (f", in {c.scope}" if c.scope else "")
    advice = [f"would help: {text}" for text in c.remedies()]
    return [Table(["what changed", "recipe", ">took", "recipe for"], rows, title), *advice]


def counted(counts: Counter[str]) -> str:
    """2 compiled, 3 known"""
    return ", ".join(f"{n:,} {recipe}" for recipe, n in sorted(counts.items()))
