"""The record of what the graph pass did, for people and as JSON.

One record per graph: how many of its nodes run on HPU, its clusters, and which ops stay on the CPU and why. It is
logged in one line; `placement_report()` gives the records of all graphs of the process.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from habana_tf.graph.bf16 import Conversion, Why
from habana_tf.graph.launch_nodes import LaunchNode
from habana_tf.graph.ops import device_type
from habana_tf.graph.placement import Placement, of_the_host
from habana_tf.graph.reasons import Reason
from habana_tf.graph.view import View

_log = logging.getLogger("habana_tf")
_lock = threading.Lock()
_records: deque[GraphRecord] = deque()
MOST_GRAPHS = 256
"""Graphs that are remembered one by one, the last ones; earlier ones are counted."""

_SHOWN = 4
"""Names in one line; all are in the report's tables and JSON."""


def _few(names: list[str], of: str) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more {of}" if more > 0 else "")


@dataclass(frozen=True)
class Census:
    """What a graph holds before the pass: nodes that compute (its rim and constants are not counted), per op."""

    nodes: int = 0
    total: int = 0


@dataclass(frozen=True)
class GraphRecord:
    """One graph. nodes: all of it; on_hpu: those that run on HPU, in a cluster or by themselves;
    in_launches: those in clusters; launches: its `HpuLaunch` nodes.

    refused: (op, reason, on the CPU) -> how many; an op that TensorFlow runs in host memory is on the CPU, whatever
    the device it is given. seconds: what the pass took. precision: with the bf16 conversion on,
    (op, why it is bf16 or fp32) -> how many.
    """

    nodes: int
    on_hpu: int
    in_launches: int
    launches: tuple[LaunchNode, ...]
    refused: dict[tuple[str, Reason, bool], int]
    seconds: float
    precision: dict[tuple[str, Why], int] = field(default_factory=dict)

    def line(self) -> str:
        """One line for the log."""
        count = len(self.launches)
        text = f"graph of {self.nodes} nodes: {self.on_hpu} on HPU, {self.in_launches} of them in "
        text += f"{count} cluster{'' if count == 1 else 's'}"
        if self.precision:
            text += f"; {sum(n for (_, w), n in self.precision.items() if w.converted)} ops in bf16"
        cpu: Counter[str] = Counter()
        why: dict[str, Reason] = {}
        for (op, reason, is_cpu), n in self.refused.items():
            if is_cpu:
                cpu[op] += n
                why.setdefault(op, reason)
        if cpu:
            shown = [f"{op} x{n} ({why[op].value})" for op, n in sorted(cpu.items(), key=lambda i: (-i[1], i[0]))]
            text += f"; on the CPU: {_few(shown, 'ops')}"
        return text


@dataclass(frozen=True)
class PlacementReport:
    """The graphs that were optimized in this process. `print(report)` shows a table.

    graphs: the last ones; earlier: how many there were before, which are in `totals` and `precision` too. eager: the
    ops that ran on the CPU outside graphs, and ops and clusters of HPU that were left to it, with the reason.
    """

    graphs: tuple[GraphRecord, ...] = ()
    totals: Counter[tuple[str, Reason, bool]] = field(default_factory=Counter)
    precision: Counter[tuple[str, Why]] = field(default_factory=Counter)
    eager: dict[str, Reason] = field(default_factory=dict)
    earlier: int = 0

    @classmethod
    def of(
        cls,
        graphs: Iterable[GraphRecord],
        eager: dict[str, Reason] | None = None,
        before: PlacementReport | None = None,
    ) -> PlacementReport:
        """The report on some graphs after those of another report, and on eager ops."""
        before = before or cls()
        totals, precision = Counter(before.totals), Counter(before.precision)
        report = cls(tuple(graphs), totals, precision, eager or {}, before.earlier + len(before.graphs))
        for g in report.graphs:
            report.totals.update(g.refused)
            report.precision.update(g.precision)
        return report

    def to_json(self) -> str:
        """{earlier, graphs: [{nodes, on_hpu, in_launches, seconds, launches: [...], refused: [...], precision:
        [...]}], refused: [...], precision: [...], eager: [...]}"""
        return json.dumps(self.data(), indent=2)

    def data(self) -> dict[str, Any]:
        """What `to_json` writes."""
        return {
            "earlier": self.earlier,
            "graphs": [_graph(g) for g in self.graphs],
            "refused": refused_rows(self.totals),
            "precision": _precision(self.precision),
            "eager": [
                {"op": op, "device": "CPU", "reason": reason.name, "text": reason.value}
                for op, reason in self.eager.items()
            ],
        }

    def __rich__(self) -> Any:
        from rich.console import Group

        of = f", the last graphs of {self.earlier + len(self.graphs):,}" if self.earlier else ""
        graphs = [
            (
                k,
                g.nodes,
                g.on_hpu,
                g.in_launches,
                _few([c.name for c in g.launches], "clusters"),
                f"{g.seconds * 1e3:.0f}",
            )
            for k, g in enumerate(self.graphs, self.earlier)
        ]
        refused = [(row["op"], row["count"], row["device"], row["text"]) for row in refused_rows(self.totals)]
        tables = [
            table(f"HPU placement{of}", [">graph", ">nodes", ">on HPU", ">in clusters", ">clusters", ">ms"], graphs),
            table("Ops outside clusters", ["op", ">count", "where", "reason"], refused),
        ]
        if self.eager:
            eager = [(op, reason.value) for op, reason in self.eager.items()]
            tables.append(table("On the CPU outside graphs", ["op", "reason"], eager))
        if self.precision:
            types = [(row["op"], row["count"], row["type"], row["text"]) for row in _precision(self.precision)]
            title = "Precision of fp32 ops under TF_BF16_CONVERSION"
            tables.append(table(title, ["op", ">count", "type", "reason"], types))
        return Group(*tables)

    def __str__(self) -> str:
        return text(self)


def table(title: str, columns: Iterable[str], rows: Iterable[Sequence[object]]) -> Any:
    """A table for rich; columns that begin with > are aligned to the right."""
    from rich.table import Table

    made = Table(title=title, title_justify="left")
    for column in columns:
        made.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left")
    for row in rows:
        made.add_row(*map(str, row))
    return made


def text(shown: Any) -> str:
    """What rich would print."""
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    Console(file=out, width=120, color_system=None, force_jupyter=False).print(shown)
    return out.getvalue()


_before = PlacementReport()
"""What is known of the graphs before those in `_records`."""


def _graph(g: GraphRecord) -> dict[str, Any]:
    launches = [
        {"name": c.name, "node": c.node, "ops": c.ops, "inputs": c.inputs, "outputs": c.outputs, "updated": c.updated}
        for c in g.launches
    ]
    return {
        "nodes": g.nodes, "on_hpu": g.on_hpu, "in_launches": g.in_launches, "seconds": round(g.seconds, 6),
        "launches": launches, "refused": refused_rows(g.refused),
        "precision": _precision(g.precision),
    }  # fmt: skip


def refused_rows(counts: dict[tuple[str, Reason, bool], int]) -> list[dict[str, Any]]:
    """Ops outside clusters as {op, count, device, reason, text}; the CPU's first, then the most frequent."""
    order = sorted(counts.items(), key=lambda i: (not i[0][2], -i[1], i[0][0], i[0][1].name))
    return [
        {"op": op, "count": n, "device": "CPU" if cpu else "HPU", "reason": reason.name, "text": reason.value}
        for (op, reason, cpu), n in order
    ]


def _precision(counts: dict[tuple[str, Why], int]) -> list[dict[str, Any]]:
    order = sorted(counts.items(), key=lambda i: (not i[0][1].converted, -i[1], i[0][0], i[0][1].name))
    types = {True: "bfloat16", False: "float32"}
    return [
        {"op": op, "count": n, "type": types[why.converted], "reason": why.name, "text": why.value}
        for (op, why), n in order
    ]


def census(view: View) -> Census:
    """Counts a graph before the pass."""
    nodes = view.alive()
    return Census(sum(1 for n in nodes if device_type(n.device) == "HPU"), len(nodes))


def describe(
    before: Census, placement: Placement, conversion: Conversion | None, launches: list[LaunchNode], seconds: float
) -> GraphRecord:
    """The record of what was done to a graph."""
    refused: Counter[tuple[str, Reason, bool]] = Counter()
    in_host_memory = 0
    for node, reason in placement.reasons.items():
        if reason is not None:
            on_cpu = of_the_host(node, reason)
            refused[node.op, reason, on_cpu] += 1
            in_host_memory += on_cpu and device_type(node.device) == "HPU"
    in_launches = sum(sum(launch.ops.values()) for launch in launches)
    casts, precision = (conversion.casts, conversion.counts()) if conversion is not None else (0, {})
    on_hpu = before.nodes + casts - placement.moved - in_host_memory
    return GraphRecord(before.total + casts, on_hpu, in_launches, tuple(launches), dict(refused), seconds, precision)


def remember(made: GraphRecord) -> None:
    """Keeps a record for the report, and says it in one line."""
    global _before
    with _lock:
        _records.append(made)
        if len(_records) > MOST_GRAPHS:
            _before = PlacementReport.of([_records.popleft()], before=_before)
            _before = replace(_before, graphs=(), earlier=_before.earlier + 1)
    _log.log(logging.INFO if made.launches else logging.DEBUG, "%s", made.line())


def placement_report() -> PlacementReport:
    """Where the ops of every graph of this process run, and why; and which eager ops ran on the CPU."""
    from habana_tf.graph import eager

    outside = eager.on_cpu()
    with _lock:
        return PlacementReport.of(_records, outside, _before)


def reset() -> None:
    """Forgets all graphs."""
    global _before
    with _lock:
        _records.clear()
        _before = PlacementReport()
