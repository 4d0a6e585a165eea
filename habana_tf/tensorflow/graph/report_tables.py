"""The placement report and the explanation as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from habana_tf.reports.table import Table
from habana_tf.resolver.placement_report import MOST_ROWS, op_table, program_table
from habana_tf.resolver.placements import OpCalls
from habana_tf.tensorflow.graph.census import OFF_CARD, Kind
from habana_tf.tensorflow.graph.reasons import REMEDIES, Reason


def graphs(records: Sequence[Any], earlier: int) -> list[str | Table]:
    """What the nodes of each graph became, and the clusters."""
    of = f", the last graphs of {earlier + len(records):,}" if earlier else ""
    rows = [(g.called, g.nodes, g.on_hpu, f"{g.seconds * 1e3:.0f} ms", said(g.kinds)) for g in records[-MOST_ROWS:]]
    columns = ["function", ">nodes", ">on HPU", ">pass", "the nodes are"]
    tables: list[str | Table] = [Table(columns, rows, f"HPU placement{of}")]
    clusters = [(launch, g.called, 0) for g in records[-MOST_ROWS:] for launch in g.launches]
    if clusters:
        more = f"; {len(clusters) - MOST_ROWS} more" if len(clusters) > MOST_ROWS else ""
        tables.append(program_table(clusters[:MOST_ROWS], f"Clusters{more}"))
    return tables


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
        there = [
            OpCalls(r["op"], r["text"], r["count"], layers=tuple(r["layers"])) for r in listed if r["device"] == device
        ]
        if there:
            out.append(op_table(there, f"{title} {where}"))
    return [*out, *remedies(r["reason"] for r in listed)]


def remedies(names: Iterable[str]) -> list[str]:
    """For each reason one line with what to do, the most frequent first."""
    counts = Counter(names)
    return [f"{Reason[name].value}: {remedy}" for name, _ in counts.most_common() if (remedy := REMEDIES[Reason[name]])]
