"""The page of a timeline: one file that loads nothing."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from habana_tf.card.timeline import card_clock, summary
from habana_tf.card.timeline.record import EventKind
from habana_tf.cli.output import moment
from habana_tf.cli.trace.page import flame, memory, roofline, spans
from habana_tf.hardware.chips import Chip, chips
from habana_tf.reports.page import clock
from habana_tf.reports.page.markup import STYLE, Markup, document, figure, table, tag, tiles
from habana_tf.reports.units import brief, operations, size

_BESIDE = Path(__file__).parent
_MOST_ROWS = 40
_MOST_REASONS = 5
_LEGEND = (("launch", "launch"), ("kernel", "kernel call"), ("compile", "compile, load, graph pass"), ("copy", "copy"),
           ("wait", "sum with other ranks"), ("cpu", "op on the CPU"), ("MME", "MME"), ("TPC", "TPC"), ("DMA", "DMA"),
           ("NIC", "NIC"), ("bundle", "bundle"))  # fmt: skip


def page(parts: Sequence[dict[str, Any]]) -> str:
    """The document. Tables and pictures beside the timeline are of the first rank."""
    first = parts[0]
    chip = next(each for each in chips() if each.name == first["chip"])
    found = summary.programs(first)
    return document(
        f"Timeline of {first['command']}",
        STYLE + clock.STYLE + (_BESIDE / "style.css").read_text("utf-8"),
        clock.POLICY,
        tag("h1", "Timeline"),
        tag("p", f"{first['command']}, {moment(time.time())}. {spans.said(parts)}.", class_="quiet"),
        _tiles(first, found),
        tag("h2", "When what ran"),
        tag("p", clock.HINT, class_="quiet"),
        clock.legend(_LEGEND),
        clock.clock(0, "This host, real", "a launch"),
        clock.clock(1, f"{chip.name}, predicted, in a clock of its own. {first['basis']}", "a launch"),
        *_unpredicted(parts),
        tag("noscript", tag("p", "The timeline needs JavaScript; what follows does not.")),
        *(_program(found, chip) if found else ()),
        *_every_unit(found, chip),
        *_every_kernel(found),
        *spans.embedded(parts),
    )  # fmt: skip


def _tiles(part: dict[str, Any], found: Sequence[summary.ProgramTotals]) -> Markup:
    sums = summary.totals(part)
    by = sums.by_kind
    compiling = by.get(EventKind.RESOLVE, 0.0) + by.get(EventKind.GRAPH_PASS, 0.0)
    copying = sum(by.get(kind, 0.0) for kind in (EventKind.TO_CARD, EventKind.FROM_CARD, EventKind.ON_CARD))
    return tiles([
        (f"{sums.counts.get(EventKind.LAUNCH, 0):,}", f"launches of {len(found)} programs"),
        (brief(by.get(EventKind.LAUNCH, 0.0)), "in launches on this host"),
        (brief(sum(p.card_seconds for p in found)), f"on {part['chip']}, as predicted"),
        (brief(compiling), "in graph passes and for recipes"),
        (brief(copying), "copying to and from HPU"),
        *([(brief(by[EventKind.SUM]), "in sums with other ranks")] if EventKind.SUM in by else []),
    ])  # fmt: skip


def _unpredicted(parts: Sequence[dict[str, Any]]) -> list[Markup]:
    """What the card's clock leaves out, with reasons."""
    found = {name: why for part in parts for name, why in card_clock.unpredicted(part).items()}
    if not found:
        return []
    some = "; ".join(f"{name}: {why}" for name, why in list(found.items())[:_MOST_REASONS])
    return [tag("p", f"Nothing is predicted of {len(found)} of the programs. {some}.", class_="quiet")]


def _program(found: Sequence[summary.ProgramTotals], chip: Chip) -> list[Markup]:
    """Layers and memory of the costliest program, beside the roofline of all."""
    program = found[0]
    per = program.host_seconds / program.launches
    times = "once" if program.launches == 1 else f"{program.launches} times"
    said = f"{program.name} was launched {times}, {brief(per)} each on this host"
    card = program.card
    if card is None or card["why"]:
        said += f". Nothing is predicted of it: {card['why'] if card else 'it was resolved too long ago'}."
        charts = []
    else:
        said += f", {brief(card['seconds'])} on {chip.name} as predicted"
        said += f"; for {brief(card['hidden'])} of these MME and TPC both work."
        charts = [
            figure(f"Layers, by the time that {chip.name}'s engines take, as predicted",
                    flame.picture(program.by_card(), program.launches)),
            figure("HBM in use: inputs, variables, tensors", memory.picture(card, "hbm", chip.hbm_bytes)),
            figure("SRAM in use: slices handed on within bundles", memory.picture(card, "sram", chip.sram_bytes)),
        ]  # fmt: skip
    here = flame.picture(program.by_host(), program.launches)
    caption = f"Roofline of all units of work on {chip.name}; a larger dot takes longer there"
    return [
        tag("h2", "The costliest launch"),
        tag("p", said),
        *charts[:1],
        figure("Layers, by the time their kernels took on this host", here),
        tag("div", *charts[1:], figure(caption, roofline.picture(found, chip)), class_="charts"),
    ]


def _every_unit(found: Sequence[summary.ProgramTotals], chip: Chip) -> list[Markup]:
    """The table of the card's units of work, the costliest first."""
    rows = sorted(((p, u) for p in found for u in p.units), key=lambda x: -x[1]["seconds"] * x[0].launches)
    names = ("op", "engine", "launches", "of a launch", "together", "operations", "HBM", "bound by")
    lines = [
        (u["name"], u["engine"], str(p.launches), brief(u["seconds"]), brief(u["seconds"] * p.launches),
         operations(u["flops"]), size(u["nbytes"]), u["bound"])
        for p, u in rows[:_MOST_ROWS]
    ]  # fmt: skip
    said = f"Units of work by the time that they take {chip.name} in all launches, as predicted{_most(len(rows))}."
    return _table(f"On {chip.name}", said, names, set(names[2:7]), lines)


def _every_kernel(found: Sequence[summary.ProgramTotals]) -> list[Markup]:
    """The table of the kernels that ran on this host, the costliest first."""
    rows = sorted(((p, k) for p in found for k in p.kernels), key=lambda x: -x[1].host_seconds)
    names = ("op", "engine on a card", "shape", "calls", "all calls", "operations", "bytes")
    lines = [
        (k.row["name"], k.row["engine"], " x ".join(map(str, k.row["shape"])) or "1", str(k.calls),
         brief(k.host_seconds), operations(k.row["flops"]), size(k.row["bytes"]))
        for _, k in rows[:_MOST_ROWS]
    ]  # fmt: skip
    said = f"Kernels by the time that all their calls took{_most(len(rows))}."
    return _table("On this host", said, names, set(names[3:]), lines)


def _most(count: int) -> str:
    return f", the first {_MOST_ROWS} of {count}" if count > _MOST_ROWS else ""


def _table(
    title: str, said: str, names: Sequence[str], right: Collection[str], rows: Sequence[Sequence[str]]
) -> list[Markup]:
    """right: names of columns that are aligned to the right."""
    return [tag("h2", title), tag("p", said, class_="quiet"), table(names, right, rows)] if rows else []
