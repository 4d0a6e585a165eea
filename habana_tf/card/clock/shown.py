"""A report on the card's time as texts and tables."""

from __future__ import annotations

from typing import Any

from habana_tf.reports.table import Table
from habana_tf.reports.units import brief, briefly, few

MOST = 15
"""Recipes in the table; `to_dict()` has all."""
LEAST = 0.005
"""Of the time of all launches: what takes less is in the line of all others."""
SHAPES = 2
"""Inputs whose shapes stand in a line."""
FEW = 8
"""Ops in a line."""


def summary(report: Any) -> str:
    of = f"{report.cards} x {report.chip}" if report.cards > 1 else report.chip
    return (
        f"{of}: {brief(report.seconds)} on the card, predicted, for {report.launches:,} launches "
        f"({brief(sum(r.host_seconds for r in report.recipes))} on this host)"
    )


def shown(report: Any) -> list[str | Table]:
    """What `print` shows of a CardTimeReport."""
    lines = []
    if report.not_predicted:
        lines.append(f"{report.not_predicted:,} launches are not predicted and count as no time")
    if report.on_cpu:
        names = few([op if n == 1 else f"{n} {op}" for op, n in report.on_cpu], FEW, "ops")
        lines.append(f"graphs leave to the CPU: {names}; their time is in the last row")
    lines.append(f"if the card waited for all that the host did between launches: {brief(report.clock_seconds)}")
    return [summary(report), _recipes(report), _card(report), _host(report), *lines]


def _recipes(report: Any) -> Table:
    counted = [r for r in report.recipes if r.each is None or r.share >= LEAST][:MOST]
    rest = [r for r in report.recipes if r not in counted]
    seconds = sum(r.seconds for r in rest)
    each, whole = briefly([r.each or 0.0 for r in counted]), briefly([*(r.seconds for r in counted), seconds])
    rows = []
    for r, one, every in zip(counted, each, whole, strict=False):
        shapes = " ".join("x".join(map(str, shape)) or "1" for shape in r.inputs[:SHAPES])
        shapes += " ..." if len(r.inputs) > SHAPES else ""
        what = [r.name, *([r.what] if r.what not in ("", r.name) else []), *([f"on {shapes}"] if shapes else [])]
        times = ("-", "-") if r.each is None else (one, every)
        rows.append(("\n".join(what), f"{r.launches:,}", *times, f"{r.share:.1%}", r.bound or r.why))
    if rest:
        time = (whole[-1], f"{sum(r.share for r in rest):.1%}") if seconds else ("no time", "")
        rows.append((f"and {len(rest):,} more", f"{sum(r.launches for r in rest):,}", "", *time, ""))
    return Table(["recipe", ">launches", ">each", ">all", ">share", "bound by"], rows)


def _card(report: Any) -> Table:
    parts = (
        ("launches", report.launch_seconds),
        ("sums between the cards", report.sums),
        ("waiting for the slowest card", report.waiting),
        ("copies, beside the launches", report.copies),
    )
    shown = {name: s for name, s in parts if s > LEAST * report.seconds}
    return Table(["the card's time, predicted", ">time"], zip(shown, briefly([*shown.values()]), strict=True))


def _host(report: Any) -> Table:
    times = briefly([b.seconds for b in report.between])
    rows = [
        (b.name, "" if b.count is None else f"{b.count:,}", time) for b, time in zip(report.between, times, strict=True)
    ]
    return Table(["the host between launches, measured here", ">times", ">time"], rows)
