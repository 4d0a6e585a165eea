"""The placement report and the explanation as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from habana_tf.reports.table import Table
from habana_tf.reports.units import size
from habana_tf.resolver.placements import Placements
from habana_tf.tensorflow.graph.census import OFF_CARD, Kind
from habana_tf.tensorflow.graph.reasons import REMEDIES, Reason

MOST_ROWS = 20
"""Clusters and graphs in a table; all are in `to_dict()`."""


def few(names: Sequence[str], of: str, most: int = 4) -> str:
    """a, b, c, d and 3 more ops"""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more {of}" if more > 0 else "")


def graphs(records: Sequence[Any], earlier: int) -> list[str | Table]:
    """What the nodes of each graph became, and the clusters."""
    if not records:
        return [
            "HPU placement: no graph has been optimized in this process. Under TensorFlow put the step into "
            "tf.function, or call Keras' fit; under PyTorch nothing ran on HPU yet. Ops outside of graphs are below."
        ]
    of = f", the last graphs of {earlier + len(records):,}" if earlier else ""
    rows = [(g.called, g.nodes, g.on_hpu, f"{g.seconds * 1e3:.0f} ms", said(g.kinds)) for g in records[-MOST_ROWS:]]
    columns = ["function", ">nodes", ">on HPU", ">pass", "the nodes are"]
    clusters = [
        (launch.name, g.called, sum(launch.ops.values()), launch.inputs, launch.outputs, launch.updated)
        for g in records[-MOST_ROWS:] for launch in g.launches
    ]  # fmt: skip
    more = [(f"and {len(clusters) - MOST_ROWS} more", *[""] * 5)] if len(clusters) > MOST_ROWS else []
    tables: list[str | Table] = [Table(columns, rows, f"HPU placement{of}")]
    if clusters:
        names = ["cluster", "function", ">ops", ">inputs", ">outputs", ">updates"]
        tables.append(Table(names, [*clusters[:MOST_ROWS], *more], "Clusters"))
    return tables


def recorded(known: Placements) -> list[str | Table]:
    """The programs of a front end that records ops, and the ops that it left to the CPU."""
    out: list[str | Table] = []
    if known.programs or known.ops:
        programs = Counter(p.name for p in known.programs)  # one for each shape that it met
        last_of = {p.name: p for p in known.programs}
        rows = [
            (
                p.name, programs[p.name], ", ".join(p.scopes), sum(p.ops.values()), few(_counted(p.ops), "ops"),
                p.inputs, p.outputs, p.updated,
            )
            for p in [*last_of.values()][-MOST_ROWS:]
        ]  # fmt: skip
        last = f", the last of {known.earlier + len(known.programs):,}" if known.earlier else ""
        columns = ["program", ">shapes", "in", ">ops", "most", ">inputs", ">outputs", ">updates"]
        title = f"HPU placement: programs of recorded ops{last}"
        out.append(Table(columns, rows, title) if rows else f"{title}: none of several ops")
    if known.cpu:
        cpu = [
            (each.op, each.count, size(each.nbytes), each.reason, few(each.layers, "layers"), few(each.lines, "lines"))
            for each in known.cpu
        ]
        title = "On the CPU, on the card's memory; a real card copies to the host and back"
        out.append(Table(["op", ">calls", ">copied there", "reason", "in", "at"], cpu, title))
        out.append("to have them on HPU: use ops that have a row in the table of overloads (docs/torch.md)")
    if known.copied:
        copies = [
            (each.op, each.count, size(each.nbytes), few(each.layers, "layers"), few(each.lines, "lines"))
            for each in known.copied
        ]
        out.append(Table(["op", ">calls", ">copied", "in", "at"], copies, "Operands of the host, copied at each call"))
        out.append("to save the copies: make these tensors on the card, or move them once with .to('hpu')")
    if known.ends:
        out.append(_ends(known))
    if known.traced:
        traced = [(each.count, each.what, each.why, each.line) for each in known.traced[:MOST_ROWS]]
        out.append(Table([">times", "what", "why", "at"], traced, "Why torch.compile made one more graph"))
    return out


def _ends(known: Placements) -> Table:
    """The lines that end programs or read values, by steps where there are any."""
    steps = known.steps
    rows = [(e.count, f"{e.count / steps:.3g}" if steps else "", e.programs, e.what, e.line or "the backward pass")
            for e in known.ends[:MOST_ROWS]]  # fmt: skip
    of = f", in {steps:,} step{'' if steps == 1 else 's'}" if steps else ""
    more = len(known.ends) - MOST_ROWS
    title = f"What ends programs, and what the host waits for{of}" + (f"; {more} more lines" if more > 0 else "")
    return Table([">times", ">a step", ">programs", "what", "at"], rows, title)


def _counted(ops: Mapping[str, int]) -> list[str]:
    """3 addmm, relu"""
    return [op if n == 1 else f"{n} {op}" for op, n in ops.items()]


def said(kinds: Mapping[Kind, int]) -> str:
    """in clusters 137, constants 60"""
    return ", ".join(f"{kind.value} {n}" for kind, n in kinds.items() if n)


def on_card(kinds: Mapping[Kind, int]) -> int:
    """How many nodes are on HPU."""
    return sum(n for kind, n in kinds.items() if kind not in OFF_CARD)


def refused(rows: Iterable[Mapping[str, Any]], title: str) -> list[str | Table]:
    """Ops outside clusters, and below them what to do about each reason, once."""
    listed = list(rows)
    if not listed:
        return []
    out: list[str | Table] = []
    for device, where in (("CPU", "on the CPU"), ("HPU", "on HPU by themselves")):
        rows_there = [
            (r["op"], r["count"], few(r["layers"], "", 3).rstrip(), r["text"]) for r in listed if r["device"] == device
        ]
        if rows_there:
            out.append(Table(["op", ">count", "layers", "reason"], rows_there, f"{title} {where}"))
    return [*out, *remedies(r["reason"] for r in listed)]


def remedies(names: Iterable[str]) -> list[str]:
    """For each reason one line with what to do, the most frequent first."""
    counts = Counter(names)
    return [f"{Reason[name].value}: {remedy}" for name, _ in counts.most_common() if (remedy := REMEDIES[Reason[name]])]
