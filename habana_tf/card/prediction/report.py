"""A prediction as tables, for a terminal and for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SHOWN = 12
"""Layers in the table."""
NOTHING = 1e-9
"""Seconds below which a part of the step is left out."""


def tables(p: Any) -> Any:
    """What `print` shows of a Prediction, as rich renders it."""
    from rich.console import Group
    from rich.table import Table

    first = (
        f"{p.cards} x {p.chip}, batch {p.batch} each, {p.precision}: {p.step_seconds * 1e3:.2f} ms a step, "
        f"{p.examples_per_second:,.0f} examples/s"
    )
    time = Table("part of the step", "ms")
    for name, seconds in p.parts.items():
        if abs(seconds) > NOTHING:
            time.add_row(name, f"{seconds * 1e3:.2f}")
    busy = ", ".join(f"{name} {share:.0%}" for name, share in p.engines.items() if share > 0.0005)
    memory = Table("HBM", "GB")
    for name, nbytes in p.memory.items():
        memory.add_row(name, f"{nbytes / 1e9:.2f}")
    verdict = "fits" if p.fits else "does NOT fit"
    memory.add_row(f"all, with firmware: {verdict}", f"{p.hbm_bytes / 1e9:.2f}")
    where = Table("layer", "ms", "share", "bound by", "what would help")
    for layer in p.layers[:SHOWN]:
        where.add_row(
            layer.name, f"{layer.seconds * 1e3:.2f}", f"{layer.share:.1%}", layer.bound, "; ".join(layer.help)
        )
    lines = [f"at work: {busy}; the products use {p.mme_utilisation:.0%} of the chip's bf16 peak"]
    lines.append(f"largest batch that fits: {p.largest_batch()}")
    for row in p.host_ops:
        lines.append(f"on the CPU: {row['count']} x {row['op']}, {row['nbytes']:,} bytes to the host")
    lines += [f"not counted: {what}" for what in p.not_counted]
    lines += [f"would help: {what}" for what in p.advice]
    return Group(first, time, *lines, memory, where)


def comparison(rows: Sequence[Any]) -> Any:
    """One row per Prediction."""
    from rich.table import Table

    table = Table("chip", "cards", "batch each", "precision", "ms a step", "examples/s", "of the MME's peak", "HBM GB")
    for p in rows:
        memory = f"{p.hbm_bytes / 1e9:.1f}" + ("" if p.fits else " (too much)")
        table.add_row(
            p.chip, str(p.cards), str(p.batch), p.precision, f"{p.step_seconds * 1e3:.2f}",
            f"{p.examples_per_second:,.0f}", f"{p.mme_utilisation:.0%}", memory,
        )  # fmt: skip
    return table
