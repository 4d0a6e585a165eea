"""A report on the card's time as tables, for a terminal and for a notebook."""

from __future__ import annotations

from typing import Any

MOST = 15
"""Recipes in the table; `to_dict()` has all."""
SHAPES = 2
"""Inputs whose shapes stand in a line."""
FEW = 8
"""Ops in a line."""
NOTHING = 1e-9
"""Seconds below which a part is left out."""


def tables(report: Any) -> Any:
    """What `print` shows of a CardTimeReport, as rich renders it."""
    from rich.console import Group
    from rich.table import Column, Table

    of = f"{report.cards} x {report.chip}" if report.cards > 1 else report.chip
    first = (
        f"{of}: {duration(report.seconds)} on the card, predicted, for {report.launches:,} launches "
        f"({duration(sum(r.host_seconds for r in report.recipes))} on this host)"
    )
    right = [Column(name, justify="right") for name in ("launches", "each", "all", "share")]
    recipes = Table("recipe", "what", "inputs", *right, "bound by")
    for r in report.recipes[:MOST]:
        shapes = " ".join("x".join(map(str, shape)) or "1" for shape in r.inputs[:SHAPES])
        shapes += " ..." if len(r.inputs) > SHAPES else ""
        each, whole = ("-", "-") if r.each is None else (duration(r.each), duration(r.seconds))
        recipes.add_row(r.name, r.what, shapes, f"{r.launches:,}", each, whole, f"{r.share:.1%}", r.bound or r.why)
    lines = []
    if len(report.recipes) > MOST:
        rest = report.recipes[MOST:]
        count = sum(r.launches for r in rest)
        lines.append(f"and {len(rest):,} more, {count:,} launches, {duration(sum(r.seconds for r in rest))}")
    if report.not_predicted:
        lines.append(f"{report.not_predicted:,} launches are not predicted and count as no time")
    card = Table("the card's time, predicted", Column(justify="right"))
    for name, seconds in (
        ("launches", report.launch_seconds),
        ("sums between the cards", report.sums),
        ("waiting for the slowest card", report.waiting),
        ("copies, beside the launches", report.copies),
    ):
        if seconds > NOTHING:
            card.add_row(name, duration(seconds))
    host = Table(
        "the host between launches, measured here", Column("times", justify="right"), Column(justify="right")
    )  # fmt: skip
    for b in report.between:
        host.add_row(b.name, "" if b.count is None else f"{b.count:,}", duration(b.seconds))
    if report.on_cpu:
        names = ", ".join(op if n == 1 else f"{n} {op}" for op, n in report.on_cpu[:FEW])
        more = f" and {len(report.on_cpu) - FEW} more ops" if len(report.on_cpu) > FEW else ""
        lines.append(f"graphs leave to the CPU: {names}{more}; their time is in the last row")
    lines.append(f"if the card waited for all that the host did between launches: {duration(report.clock_seconds)}")
    return Group(first, recipes, card, host, *lines)


def duration(seconds: float) -> str:
    """1.25 s, 3.10 ms or 12.0 us"""
    if seconds >= 1:
        return f"{seconds:,.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"
