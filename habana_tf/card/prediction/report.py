"""A prediction as texts and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from habana_tf.card.prediction.limits import said
from habana_tf.reports.bar import bar
from habana_tf.reports.table import Table
from habana_tf.reports.units import brief, briefly, few, size

SHOWN = 12
"""Layers in the table."""
LEAST = 0.001
"""Of the step: shorter parts are left out."""
TIMES = 1000
"""A batch so many times that of the prediction is not told apart from a larger one: what else changes by then?"""
FEW = 3
"""Layers that are named with what would help them."""


def summary(p: Any) -> str:
    return (
        f"{p.cards} x {p.chip}, batch {_batch(p)} each, {p.precision}: {brief(p.step_seconds)} a step, "
        f"{p.examples_per_second:,.0f} examples/s"
    )


def _batch(p: Any) -> str:
    """Examples of a card at once, and how many times: 4 x 32"""
    return f"{p.accumulate} x {p.batch}" if p.accumulate > 1 else str(p.batch)


def shown(p: Any) -> list[str | Table]:
    """What `print` shows of a Prediction."""
    low, high = p.range
    lines = [summary(p), f"with release {p.release}, in {p.step.box.name}; nine of ten runs: {low:,.0f} to {high:,.0f}"]
    lines += said(p.limits, p.fed_by)
    if p.precision_why:
        lines.append(f"{p.precision}: {p.precision_why}")
    parts = {name: s for name, s in p.parts.items() if abs(s) >= LEAST * p.step_seconds and s}
    time = Table(["part of the step", ">time"], zip(parts, briefly([*parts.values()]), strict=True))
    busy = ", ".join(f"{name} {share:.0%}" for name, share in p.engines.items() if share >= 0.005)
    products = f"the products use {_share(p.mme_utilisation)} of the chip's bf16 peak"
    notes = [f"at work: {busy}; {products}" if busy else products, _largest(p), *_pcie(p)]
    for row in p.host_ops:
        notes.append(f"on the CPU: {row['count']} x {row['op']}, {row['nbytes']:,} bytes to the host")
    notes += [f"assumed: {what}" for what in p.assumed]
    notes += [f"not counted: {what}" for what in p.not_counted]
    notes += [f"would help: {what}" for what in p.advice]
    notes += help_lines(p.layers)
    return [*lines, time, *notes, _memory(p), *_peak(p), _layers(p)]


def _share(of_one: float) -> str:
    return f"{of_one:.0%}" if of_one >= 0.01 or not of_one else "less than 1%"


def _largest(p: Any) -> str:
    found, most = p.largest_batch(), TIMES * p.batch
    return "largest batch that fits: " + (f"more than {most:,}" if found > most else f"{found:,}")


def _pcie(p: Any) -> list[str]:
    """What crosses PCIe in each step, and what does not because it is on the card."""
    lines = []
    if p.pcie:
        most = few([f"{t['name']} {size(t['nbytes'])} to the {t['to']}" for t in p.pcie], FEW)
        waits = "the step waits for it" if p.parts["feeding"] > 0 else "while the card works"
        lines.append(f"over PCIe in each step: {most}: {brief(p.step.copies)}, {waits}")
    if p.resident:
        lines.append(f"on the card already: {', '.join(p.resident)}")
    return lines


def _memory(p: Any) -> Table:
    """HBM at the peak, by what it is for, the most first, and the share of what the step needs."""
    whole = sum(p.memory.values()) or 1
    used = sorted(((name, n) for name, n in p.memory.items() if n), key=lambda item: -item[1])
    rows = [(name, size(n), f"{n / whole:.0%}") for name, n in used]
    verdict = "fits" if p.fits else "does NOT fit"
    rows.append(("the firmware", size(p.step.chip.idle_memory_bytes), ""))
    rows.append((f"all: {verdict} into {size(p.step.chip.hbm_bytes)}", size(p.hbm_bytes), ""))
    return Table(["HBM at the peak", ">size", ">share"], rows)


def _peak(p: Any) -> list[str]:
    """HBM over the step as a curve, and the owner of its peak."""
    if p.peak is None or not p.peak.nbytes:
        return []
    owners = few([f"{name} {size(n)}" for name, n in p.peak.layers.items()], FEW)
    return [
        f"HBM over the step: {bar(p.hbm_over_step)}",
        f"the peak is at {p.peak.op}, with {size(p.peak.nbytes)} of tensors: {owners}",
    ]


def _layers(p: Any) -> Table:
    first, rest = p.layers[:SHOWN], p.layers[SHOWN:]
    times = briefly([*(x.seconds for x in first), sum(x.seconds for x in rest)])
    rows = [(x.name, time, f"{x.share:.1%}", x.bound) for x, time in zip(first, times, strict=False)]
    if rest:
        rows.append((f"and {len(rest)} more", times[-1], f"{sum(x.share for x in rest):.1%}", ""))
    return Table(["layer", ">time", ">share", "bound by"], rows)


def help_lines(layers: Sequence[Any]) -> list[str]:
    """What would make layers faster: each remedy once, with the layers it is for and their share of the step."""
    found: dict[str, list[Any]] = {}
    for layer in layers:
        for text in layer.help:
            found.setdefault(text, []).append(layer)
    ordered = sorted(found.items(), key=lambda item: -sum(x.share for x in item[1]))
    lines = []
    for text, those in ordered:
        names = few([x.name for x in those], FEW)
        lines.append(f"would help {names} ({sum(x.share for x in those):.0%} of the launches' time): {text}")
    return lines


def comparison(rows: Sequence[Any]) -> Table:
    """One row per Prediction."""
    columns = ["chip", ">cards", ">batch", "precision", ">a step", ">examples/s", ">MME peak", ">HBM"]
    cells = [
        (
            p.chip, p.cards, _batch(p), p.precision, brief(p.step_seconds), f"{p.examples_per_second:,.0f}",
            f"{p.mme_utilisation:.0%}", size(p.hbm_bytes) + ("" if p.fits else " (too much)"),
        )
        for p in rows
    ]  # fmt: skip
    return Table(columns, cells)
