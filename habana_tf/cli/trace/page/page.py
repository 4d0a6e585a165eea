"""The page of a timeline, in one file that loads nothing. Its one script is known to the browser by its digest."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Sequence
from typing import Any

from habana_tf.cli.output import brief, moment, operations, size
from habana_tf.cli.recipes.page.markup import Markup, joined, tag
from habana_tf.cli.trace.page import flame, hbm, roofline, spans
from habana_tf.cli.trace.page.script import SCRIPT
from habana_tf.cli.trace.page.style import STYLE
from habana_tf.hardware.chips import Chip, chips
from habana_tf.timeline import summary
from habana_tf.timeline.record import Kind

__all__ = ["page"]

_MOST_ROWS = 40
_LEGEND = (("launch", "launch"), ("kernel", "kernel call"), ("compile", "compile, load, graph pass"), ("copy", "copy"),
           ("wait", "sum with other ranks"), ("cpu", "op on the CPU"), ("MME", "MME"), ("TPC", "TPC"))  # fmt: skip


def page(parts: Sequence[dict[str, Any]]) -> str:
    """The document. Tables and pictures beside the timeline are of the first rank."""
    first = parts[0]
    chip = next(each for each in chips() if each.name == first["chip"])
    found = summary.programs(first)
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    head = tag(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Markup('<meta name="viewport" content="width=device-width">'),
        tag("title", f"Timeline of {first['command']}"),
        tag("style", Markup(STYLE)),
    )
    body = tag(
        "body",
        tag("h1", "Timeline"),
        tag("p", f"{first['command']}, {moment(time.time())}. {spans.said(parts)}.", class_="quiet"),
        _tiles(first, found),
        tag("h2", "When what ran"),
        tag("p", "Drag to move, Ctrl and wheel to zoom, double click on a span to see it large.", class_="quiet"),
        tag("p", *(joined(tag("span", style=f"background:var(--k-{kind})"), name) for kind, name in _LEGEND),
            class_="quiet key"),
        _clock(0, "This host, real"),
        _clock(1, f"{chip.name}, predicted, in a clock of its own: launches without gaps. {first['basis']}"),
        tag("noscript", tag("p", "The timeline needs JavaScript; what follows does not.")),
        *(_program(found, chip) if found else ()),
        *_every_kernel(found, chip),
        spans.embedded(parts),
        tag("script", Markup(SCRIPT)),
    )  # fmt: skip
    return "<!DOCTYPE html>\n" + tag("html", head, body, lang="en") + "\n"


def _tiles(part: dict[str, Any], found: Sequence[summary.Program]) -> Markup:
    sums = summary.totals(part)
    by = sums.by_kind
    compiling = by.get(Kind.RESOLVE, 0.0) + by.get(Kind.GRAPH_PASS, 0.0)
    copying = sum(by.get(kind, 0.0) for kind in (Kind.TO_CARD, Kind.FROM_CARD, Kind.ON_CARD))
    tiles = [
        (f"{sums.counts.get(Kind.LAUNCH, 0):,}", f"launches of {len(found)} programs"),
        (brief(by.get(Kind.LAUNCH, 0.0)), "in launches on this host"),
        (brief(sum(p.card_seconds for p in found)), f"on {part['chip']}, as predicted"),
        (brief(compiling), "in graph passes and for recipes"),
        (brief(copying), "copying to and from HPU"),
        *([(brief(by[Kind.SUM]), "in sums with other ranks")] if Kind.SUM in by else []),
    ]
    return tag("div", *(tag("div", tag("b", a), tag("span", b), class_="tile") for a, b in tiles), class_="tiles")


def _clock(number: int, caption: str) -> Markup:
    buttons = [tag("button", text, type="button", value=value, aria_label=label) for value, text, label in (
        ("launch", "a launch", "show a launch"), ("whole", "all", "show everything"), ("in", "+", "zoom in"),
        ("out", "-", "zoom out"))]  # fmt: skip
    return tag(
        "figure",
        tag("figcaption", caption),
        tag("div", *buttons, class_="controls"),
        tag("canvas", tabindex=0, role="img", aria_label=f"spans of {caption}"),
        tag("div", class_="note", aria_live="polite"),
        id=f"clock{number}",
    )


def _program(found: Sequence[summary.Program], chip: Chip) -> list[Markup]:
    """Layers and memory of the costliest program, beside the roofline of all."""
    program = found[0]
    everything = roofline.picture([kernel for each in found for kernel in each.kernels], chip)
    per = program.host_seconds / program.launches
    on_card = program.card["seconds"] if program.card else None
    times = "once" if program.launches == 1 else f"{program.launches} times"
    said = f"{program.name} was launched {times}, {brief(per)} each on this host"
    said += f", {brief(on_card)} on {chip.name} as predicted." if on_card is not None else "."
    layers = flame.picture(summary.by_path(program), program.launches)
    held = hbm.picture(program.card) if program.card else tag("p", "Nothing is predicted of it.", class_="quiet")
    return [
        tag("h2", "The costliest launch"),
        tag("p", said),
        _figure("Layers, by the time their kernels took on this host", layers),
        tag(
            "div",
            _figure("HBM that it holds: arguments, results and workspace", held),
            _figure(f"Roofline of all kernels on {chip.name}; a larger dot takes longer there", everything),
            class_="charts",
        ),
    ]


def _every_kernel(found: Sequence[summary.Program], chip: Chip) -> list[Markup]:
    rows = sorted(((p, k) for p in found for k in p.kernels), key=lambda x: -x[1].host_seconds)
    if not rows:
        return []
    names = ("op", "engine", "shape", "calls", "on this host", f"on {chip.name}", "operations", "bytes", "bound by")
    right = {"calls", "on this host", f"on {chip.name}", "operations", "bytes"}
    lines = [tag("tr", *(tag("td", text, class_="n" if name in right else None) for name, text in
                         zip(names, _cells(p, k, chip), strict=True))) for p, k in rows[:_MOST_ROWS]]  # fmt: skip
    heading = tag("tr", *(tag("th", name, class_="n" if name in right else None) for name in names))
    most = f", the first {_MOST_ROWS} of {len(rows)}" if len(rows) > _MOST_ROWS else ""
    return [
        tag("h2", "Kernels"),
        tag("p", f"By the time that all calls took on this host{most}; on the card the time is of one launch.",
            class_="quiet"),
        tag("div", tag("table", tag("thead", heading), tag("tbody", *lines)), class_="wide"),
    ]  # fmt: skip


def _cells(program: summary.Program, kernel: summary.Kernel, chip: Chip) -> list[str]:
    row, on_card = kernel.row, kernel.card_seconds
    peak = {"MME": chip.published_mme_flops, "TPC": chip.published_tpc_flops}.get(row["engine"])
    computes = bool(peak) and row["flops"] / (peak or 1) > row["bytes"] / chip.published_hbm_bandwidth
    return [
        row["name"], row["engine"], " x ".join(map(str, row["shape"])) or "1", str(kernel.calls),
        brief(kernel.host_seconds), "" if on_card is None else brief(on_card), operations(row["flops"]),
        size(row["bytes"]), row["engine"] if computes else "memory",
    ]  # fmt: skip


def _figure(caption: str, picture: Markup) -> Markup:
    return tag("figure", tag("figcaption", caption), picture)
