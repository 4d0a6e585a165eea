"""The record of what the graph pass did, for people and as JSON.

One record per graph: how many of its nodes run on HPU, its clusters, and which ops stay on the CPU and why. It is
logged in one line; the placement report has the records of all graphs of the process.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from habana_tf.reports.layer_names import layer
from habana_tf.reports.table import Table
from habana_tf.reports.units import few
from habana_tf.resolver import placement_report, placements
from habana_tf.resolver.placement_report import PlacementReport
from habana_tf.resolver.recompilations import single_ops
from habana_tf.tensorflow.graph import portability, report_tables
from habana_tf.tensorflow.graph.bf16 import Conversion, Why
from habana_tf.tensorflow.graph.census import OFF_CARD, Census, Kind, by_kind, computing, running
from habana_tf.tensorflow.graph.launch_nodes import LaunchNode
from habana_tf.tensorflow.graph.placement import Placement, needs_support, of_the_host
from habana_tf.tensorflow.graph.reasons import Reason
from habana_tf.tensorflow.graph.report_tables import said
from habana_tf.tensorflow.graph.view import Node

_log = logging.getLogger("habana_tf")
Refusal = tuple[str, Reason, bool]
"""An op outside clusters, why it is, and whether it is work of the CPU."""

_lock = threading.Lock()
_records: deque[GraphRecord] = deque()
MOST_GRAPHS = 256
"""Graphs that are remembered one by one, the last ones; earlier ones are counted."""


@dataclass(frozen=True)
class GraphRecord:
    """One graph. nodes: all of it; on_hpu: those that run on HPU, in a cluster or by themselves;
    in_launches: those in clusters; launches: its `HpuLaunch` nodes.

    refused: (op, reason, on the CPU) -> how many; an op that TensorFlow runs in host memory is on the CPU, whatever
    the device it is given. seconds: what the pass took. precision: with the bf16 conversion on,
    (op, why it is bf16 or fp32) -> how many. function: its name in the program, as far as it is known. kinds: what
    became of the nodes, which are all in it. layers: those of refused ops, the first ones. ops: the program's ops that
    HPU computes, op -> how many, before the pass changed them.
    """

    nodes: int
    on_hpu: int
    in_launches: int
    launches: tuple[LaunchNode, ...]
    refused: dict[Refusal, int]
    seconds: float
    precision: dict[tuple[str, Why], int] = field(default_factory=dict)
    function: str = ""
    kinds: dict[Kind, int] = field(default_factory=dict)
    layers: dict[Refusal, tuple[str, ...]] = field(default_factory=dict)
    ops: dict[str, int] = field(default_factory=dict)

    @property
    def called(self) -> str:
        """What reports call it."""
        return self.function or "(a graph without a name)"

    @property
    def on_cpu(self) -> Counter[str]:
        """The ops that run on the CPU: op -> how many."""
        found: Counter[str] = Counter()
        for (op, _, cpu), n in self.refused.items():
            if cpu:
                found[op] += n
        return found

    def line(self) -> str:
        """One line for the log."""
        count = len(self.launches)
        inside = self.kinds.get(Kind.CLUSTER, 0) if self.kinds else self.in_launches
        name = f" ({self.function})" if self.function else ""
        text = f"graph of {self.nodes} nodes{name}: {self.on_hpu} on HPU, {inside} of them in "
        text += f"{count} cluster{'' if count == 1 else 's'}"
        others: dict[Kind, int] = {k: n for k, n in self.kinds.items() if k not in (Kind.CLUSTER, *OFF_CARD)}
        if others:
            text += f", the others {said(others)}"
        if self.precision:
            text += f"; {sum(n for (_, w), n in self.precision.items() if w.converted)} ops in bf16"
        why = {op: reason for (op, reason, cpu) in reversed(self.refused) if cpu}
        if why:
            shown = [
                f"{op} x{n} ({why[op].value})" for op, n in sorted(self.on_cpu.items(), key=lambda i: (-i[1], i[0]))
            ]
            text += f"; on the CPU: {few(shown, 4, 'ops')}"
        return text


@dataclass(frozen=True, repr=False)
class GraphPlacementReport(PlacementReport):
    """The report with the graphs that were optimized in this process, and with eager ops.

    graphs: the last ones; earlier: how many there were before, which are in `totals`, `precision` and `ops` too. eager:
    the ops that ran on the CPU outside graphs, and ops and clusters of HPU that were left to it, with the reason.
    single: the ops that HPU ran one by one, eagerly above all.
    """

    graphs: tuple[GraphRecord, ...] = ()
    totals: Counter[Refusal] = field(default_factory=Counter)
    precision: Counter[tuple[str, Why]] = field(default_factory=Counter)
    eager: dict[str, Reason] = field(default_factory=dict)
    earlier: int = 0
    ops: Counter[str] = field(default_factory=Counter)
    single: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        graphs: Iterable[GraphRecord],
        eager: dict[str, Reason] | None = None,
        before: GraphPlacementReport | None = None,
        single: tuple[str, ...] = (),
    ) -> GraphPlacementReport:
        """The report on some graphs after those of another report, and on eager ops."""
        before = before or cls()
        totals, precision, ops = Counter(before.totals), Counter(before.precision), Counter(before.ops)
        earlier = before.earlier + len(before.graphs)
        report = cls(tuple(graphs), totals, precision, eager or {}, earlier, ops, single)
        for g in report.graphs:
            report.totals.update(g.refused)
            report.precision.update(g.precision)
            report.ops.update(g.ops)
        return report

    def to_dict(self) -> dict[str, Any]:
        """What `PlacementReport.to_dict` has and {earlier, graphs: [{function, nodes, on_hpu, in_launches, kinds,
        seconds, launches: [...], refused: [...], precision: [...]}], refused: [...], precision: [...], eager: [...],
        real_card: [{op, count, device, real_card, lists}]}; device is where the op is here, real_card where it was with
        a real card: HPU, CPU or not known; its count is 0 where it only ran outside graphs"""
        return {
            "earlier": self.earlier,
            "graphs": [_graph(g) for g in self.graphs],
            "refused": refused_rows(self.totals, self.layers),
            "precision": _precision(self.precision),
            "eager": [
                {"op": op, "device": "CPU", "reason": reason.name, "text": reason.value}
                for op, reason in self.eager.items()
            ],
            **super().to_dict(),
            "real_card": portability.rows(self.on_hpu, self.on_cpu()),
        }

    @property
    def on_hpu(self) -> dict[str, int]:
        """The ops that HPU computes: op -> how many nodes of graphs, 0 where it only ran outside graphs."""
        return {**{op: 0 for op in self.single if needs_support(op)}, **self.ops}

    def on_cpu(self, *reasons: Reason) -> dict[str, int]:
        """The ops of graphs that the CPU computes, for any of these reasons or for all: op -> how many."""
        counts: Counter[str] = Counter()
        for (op, reason, cpu), n in self.totals.items():
            if cpu and (not reasons or reason in reasons):
                counts[op] += n
        return dict(counts)

    @property
    def layers(self) -> dict[Refusal, tuple[str, ...]]:
        """Layers with ops outside clusters, of the graphs that are remembered."""
        found: dict[Refusal, dict[str, None]] = {}
        for g in self.graphs:
            for refusal, names in g.layers.items():
                found.setdefault(refusal, {}).update(dict.fromkeys(names))
        return {refusal: tuple(names) for refusal, names in found.items()}

    def summary(self) -> str:
        nodes, on_hpu = sum(g.nodes for g in self.graphs), sum(g.on_hpu for g in self.graphs)
        clusters = sum(len(g.launches) for g in self.graphs)
        graphs = f"{len(self.graphs)} graphs, {on_hpu} of {nodes} nodes on HPU, {clusters} clusters"
        if not self.recorded.ops and not self.cpu_ops:
            return graphs
        return f"{graphs}; {super().summary()}" if self.graphs else super().summary()

    def shown(self) -> list[str | Table]:
        recorded = placement_report.recorded_tables(self.recorded)
        out = [*recorded, *report_tables.graphs(self.graphs, self.earlier)] if self.graphs else super().shown()
        out += report_tables.refused(refused_rows(self.totals, self.layers), "Ops outside clusters,")
        if self.eager:
            eager = [placements.OpCalls(op, reason.value) for op, reason in self.eager.items()]
            out.append(placement_report.op_table(eager, "On the CPU outside graphs"))
            out += report_tables.remedies(reason.name for reason in self.eager.values())
        out += portability.shown(self.on_hpu, self.on_cpu(Reason.NO_ROW))
        if self.precision:
            types = [(row["op"], row["count"], row["type"], row["text"]) for row in _precision(self.precision)]
            title = "Precision of fp32 ops under TF_BF16_CONVERSION"
            out.append(Table(["op", ">count", "type", "reason"], types, title))
        return out


_before = GraphPlacementReport()
"""What is known of the graphs before those in `_records`."""


def _graph(g: GraphRecord) -> dict[str, Any]:
    launches = [
        {"name": c.name, "node": c.node, "ops": c.ops, "inputs": c.inputs, "outputs": c.outputs, "updated": c.updated}
        for c in g.launches
    ]
    return {
        "function": g.function, "nodes": g.nodes, "on_hpu": g.on_hpu, "in_launches": g.in_launches,
        "kinds": {kind.name.lower(): n for kind, n in g.kinds.items()}, "seconds": round(g.seconds, 6),
        "launches": launches, "refused": refused_rows(g.refused, g.layers),
        "precision": _precision(g.precision),
    }  # fmt: skip


def refused_rows(
    counts: Mapping[Refusal, int], layers: Mapping[Refusal, Sequence[str]] | None = None
) -> list[dict[str, Any]]:
    """Ops outside clusters as {op, count, device, reason, text, layers}; the CPU's first, then the most frequent."""
    order = sorted(counts.items(), key=lambda i: (not i[0][2], -i[1], i[0][0], i[0][1].name))
    return [
        {
            "op": op, "count": n, "device": "CPU" if cpu else "HPU", "reason": reason.name, "text": reason.value,
            "layers": list((layers or {}).get((op, reason, cpu), ())),
        }
        for (op, reason, cpu), n in order
    ]  # fmt: skip


def _precision(counts: dict[tuple[str, Why], int]) -> list[dict[str, Any]]:
    order = sorted(counts.items(), key=lambda i: (not i[0][1].converted, -i[1], i[0][0], i[0][1].name))
    types = {True: "bfloat16", False: "float32"}
    return [
        {"op": op, "count": n, "type": types[why.converted], "reason": why.name, "text": why.value}
        for (op, why), n in order
    ]


def describe(
    before: Census,
    placement: Placement,
    conversion: Conversion | None,
    members: Iterable[Node],
    launches: list[LaunchNode],
    seconds: float,
) -> GraphRecord:
    """The record of what was done to a graph. members: the nodes that `launches` stand for."""
    refused: Counter[Refusal] = Counter()
    layers: dict[Refusal, dict[str, None]] = {}
    for node, reason in placement.reasons.items():
        if reason is not None:
            refusal = (node.op, reason, of_the_host(node, reason))
            refused[refusal] += 1
            known = layers.setdefault(refusal, {})
            if len(known) < placements.MOST_LAYERS:
                known[layer(node.name)] = None
    in_launches = sum(sum(launch.ops.values()) for launch in launches)
    casts, precision = (conversion.casts, conversion.counts()) if conversion is not None else (0, {})
    counted = before.counted(placement, members)
    kinds = by_kind(counted, casts)
    return GraphRecord(
        sum(kinds.values()), report_tables.on_card(kinds), in_launches, tuple(launches), dict(refused), seconds,
        precision, running(), kinds, {refusal: tuple(names) for refusal, names in layers.items()},
        computing(counted),
    )  # fmt: skip


def remember(made: GraphRecord) -> None:
    """Keeps a record for the report, and says it in one line."""
    global _before
    with _lock:
        _records.append(made)
        if len(_records) > MOST_GRAPHS:
            _before = GraphPlacementReport.of([_records.popleft()], before=_before)
            _before = replace(_before, graphs=(), earlier=_before.earlier + 1)
    placements.note_graph(made.on_cpu)
    _log.log(logging.INFO if made.launches else logging.DEBUG, "%s", made.line())


def reported(known: placements.Placements) -> GraphPlacementReport:
    """Where the ops of every graph of this process run, and why; and which eager ops ran on the CPU."""
    from habana_tf.tensorflow.graph import eager

    outside = eager.on_cpu()
    with _lock:
        single = tuple(op for op in single_ops() if op not in known.ops)
        return replace(GraphPlacementReport.of(_records, outside, _before, single), recorded=known)


placement_report.made_by(reported)


def reset() -> None:
    """Forgets all graphs."""
    global _before
    with _lock:
        _records.clear()
        _before = GraphPlacementReport()
        placements.reset()
