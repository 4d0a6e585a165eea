"""The page of the recipe cache: what it holds, how much time it saved, and a picture of each larger recipe."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from habana_tf.cache import Counts, Entry, Listed
from habana_tf.cli.output import moment
from habana_tf.cli.recipes import contents
from habana_tf.cli.recipes.common import (
    KEY_DIGITS,
    header,
    op_count,
    ops_text,
    plain,
    precision,
    shortened,
    tensors,
    worked,
)
from habana_tf.cli.recipes.page import charts, graph, plan
from habana_tf.hardware.chips import chip
from habana_tf.hardware.roofline import said
from habana_tf.reports.layer_names import layer
from habana_tf.reports.page.markup import STYLE, Markup, document, figure, joined, table, tag, tiles
from habana_tf.reports.units import amount, brief, briefly, counted, duration, operations, size

if TYPE_CHECKING:
    from habana_tf.card.clock.predicted import LaunchPrediction

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The browser itself holds the page to loading nothing and running nothing."""


@dataclass(frozen=True)
class PicturedRecipe:
    """A recipe with pictures. sizes: of its open sizes, those that its memory plan is drawn for, and its
    time is predicted for; why: where from. times: by chip, what a launch is predicted to take; no_times: why not."""

    row: Listed
    entry: Entry
    sizes: tuple[int, ...]
    why: str
    times: Mapping[str, LaunchPrediction]
    no_times: str


@dataclass(frozen=True)
class Facts:
    root: str
    rows: Sequence[Listed]
    unusable: Sequence[Listed]
    totals: Counts
    runs: Sequence[dict[str, Any]]
    drawn: Sequence[PicturedRecipe]


def page(facts: Facts) -> str:
    rows = sorted(facts.rows, key=lambda row: header(row)["created"])
    return document(
        f"Recipes in {facts.root}",
        STYLE,
        _POLICY,
        tag("h1", "Recipe cache"),
        tag("p", f"{facts.root}, {moment(time.time())}", class_="quiet"),
        _tiles(facts),
        tag(
            "div",
            figure("Compile time of each recipe, oldest first", charts.compile_times(rows)),
            figure("Size of what is there, by time of creation", charts.growth(rows)),
            figure("Hits (filled) and misses (outlined) of each run in the journal", charts.history(facts.runs)),
            class_="charts",
        ),
        *_runs(facts),
        tag("h2", "Recipes"),
        *_tables(facts),
        *(_recipe(drawn) for drawn in facts.drawn),
    )


def _tiles(facts: Facts) -> Markup:
    t = facts.totals
    asked = t.disk_hits + t.misses
    return tiles([
        (str(len(facts.rows)), "recipes"),
        (size(sum(row.file_bytes for row in facts.rows)), "on disk"),
        (str(len(facts.runs)), "runs in the journal"),
        (f"{100 * t.disk_hits / asked:.0f} %" if asked else "-", f"found, of {asked} asked for"),
        (duration(t.compile_seconds), f"spent on {t.compiled} compilations"),
        (duration(t.saved_seconds), "saved"),
        (str(t.corrupt + t.refused + len(facts.unusable)), "damaged or not believed"),
    ])  # fmt: skip


def _tables(facts: Facts) -> list[Markup]:
    """Those of several ops, then, folded, those of single ops."""
    rows = sorted(facts.rows, key=lambda row: -row.last_used)
    several, single = [r for r in rows if op_count(r) != 1], [r for r in rows if op_count(r) == 1]
    drawn = {header(d.row)["digest"] for d in facts.drawn}
    bad = [("unusable", f"{row.path}: {row.problem}") for row in facts.unusable]
    tables = [_table([*(_line(row, drawn) for row in several), *bad])]
    if single:
        summary = tag("summary", f"{len(single)} recipes of single ops (eager code)")
        tables.append(tag("details", summary, _table([_line(row, drawn) for row in single])))
    return tables


def _runs(facts: Facts) -> list[Markup]:
    """The figures behind the chart of runs, the last run first."""
    if not facts.runs:
        return []
    lines = [
        (run["run"], moment(run["began"]), str(run["events"]["hit"]), str(run["events"]["miss"]),
         duration(run["compile_seconds"]), duration(run["saved_seconds"]))
        for run in reversed(facts.runs)
    ]  # fmt: skip
    names = ("run", "began", "hits", "misses", "spent", "saved")
    shown = table(names, names[2:], lines, {"began": "whole"})
    return [tag("details", tag("summary", f"{len(lines)} runs in figures"), shown)]


def _kernels(kernels: Sequence[dict[str, Any]], ops: Sequence[contents.ClusterOp]) -> Markup:
    """Every kernel in figures, the costliest first; with open sizes in the order of their calls."""
    times = [k["at_least_seconds"] for k in kernels]
    known = None not in times
    order = sorted(range(len(kernels)), key=lambda k: (-times[k], k)) if known else range(len(kernels))
    whole = sum(times) if known else 0.0
    least = briefly(times) if known else ["-"] * len(times)
    lines = []
    for number in order:
        k = kernels[number]
        layers = ", ".join(dict.fromkeys(layer(ops[op].name) for op in k["ops"]))
        figures = (amount(k["flops"], operations), amount(k["bytes"], size), least[number],
                   f"{times[number] / whole:.1%}" if whole else "-")  # fmt: skip
        lines.append(
            (str(number), f"{k['engine']} {k['does']}", "[" + ",".join(map(str, k["shape"])) + "]",
             counted(k["fused"]), *figures, layers)
        )  # fmt: skip
    names = ("kernel", "engine", "over", "fused", "flops", "bytes", "at least", "share", "layers")
    return table(names, {"kernel", *names[4:8]}, lines, {"engine": "whole", "fused": "prose"}, tall=True)


def _table(rows: Sequence[Sequence[str]]) -> Markup:
    names = ("name", "key", "type", "work", "inputs", "kernels", "size", "compile time", "last use")
    return table(names, names[6:8], rows, {"key": "key", "kernels": "whole", "last use": "whole"})


def _line(row: Listed, drawn: set[str]) -> tuple[str, ...]:
    of = header(row)
    key = of["digest"][:KEY_DIGITS]
    kernels = of.get("kernels") or {}
    return (
        tag("a", of["name"], href=f"#{key}") if of["digest"] in drawn else of["name"],
        key,
        precision(row),
        f"cannot be compiled: {of['failure']}" if "failure" in of else shortened(worked(row), 70),
        shortened(of.get("takes", ""), 50),
        ", ".join(f"{n} {engine}" for engine, n in kernels.items() if n),
        size(row.file_bytes),
        duration(of["compile_seconds"]),
        moment(row.last_used),
    )


def _recipe(drawn: PicturedRecipe) -> Markup:
    entry, of = drawn.entry, header(drawn.row)
    kernels, ops = contents.kernels(entry), contents.ops(entry)
    lazy = sum(not op.kernels for op in ops)
    memory = contents.plan(entry, drawn.sizes)
    flops = of.get("flops")
    facts = [
        ("ops", ops_text(drawn.row)),
        ("in", ", ".join(f"{name} ({n})" for name, n in (of.get("scopes") or {}).items())),
        ("inputs", tensors(of, "inputs")),
        ("outputs", tensors(of, "outputs")),
        ("work", "depends on sizes" if flops is None else f"{operations(flops)} floating-point operations"),
        ("predicted", _predicted(drawn)),
        ("kernels", said(chip())),
        ("file", f"{size(drawn.row.file_bytes)}, created {moment(of['created'])}, compiled in "
                 f"{duration(of['compile_seconds'])}"),
        ("made by", plain(of.get("tools") or {})),
    ]  # fmt: skip
    listed = tag("dl", *(joined(tag("dt", name), tag("dd", text)) for name, text in facts if text))
    bars = " Right: floating-point operations (upper bar) and bytes, against the kernel that has most."
    became = (
        f"{len(ops)} ops became {len(kernels)} kernels, in the order of their calls (MME: contractions, TPC: the "
        f"rest). {lazy} ops need none: constants, shapes, views, and what another op computes anyway."
        f"{bars if flops is not None else ''}"
    )
    parts = [
        tag("h2", of["name"], tag("small", f" {of['digest'][:KEY_DIGITS]}"), id=of["digest"][:KEY_DIGITS]),
        listed,
        figure(became, tag("div", graph.picture(kernels, ops, contents.edges(entry)), class_="tall")),
        figure(
            "The kernels, " + ("the costliest first" if flops is not None else "in the order of their calls"),
            _kernels(kernels, ops),
        ),
    ]
    if memory is not None and memory.blocks:
        values = ", ".join(f"s{k} = {n}" for k, n in enumerate(drawn.sizes))
        drawn_for = f" Drawn for {values}: {drawn.why}." if values else ""
        caption = (
            f"The workspace over {memory.launches} kernel calls: {len(memory.blocks)} buffers in {size(memory.total)}, "
            f"at most {size(memory.peak)} alive at once (line).{drawn_for}"
        )
        parts.append(figure(caption, tag("div", plan.picture(memory), class_="wide")))
    return tag("section", *parts)


def _predicted(drawn: PicturedRecipe) -> str:
    if drawn.no_times:
        return f"nothing: {drawn.no_times}"
    times = [f"{chip} {brief(p.seconds or 0.0)} (bound by {p.bound})" for chip, p in drawn.times.items()]
    of = ", ".join(f"s{k} = {n}" for k, n in enumerate(drawn.sizes))
    return f"one launch takes {', '.join(times)}{f', with {of}' if of else ''}" if times else ""
