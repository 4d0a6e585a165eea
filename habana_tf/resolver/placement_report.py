"""`placement_report()`: which programs ran on HPU, what the host had a part in and why, as tables and as JSON.

What is recorded of any framework (`resolver.placements`) is shown here. A front end that has more to say, as
TensorFlow's has of its graphs, extends the report and names what makes it (`made_by`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from habana_tf.reports.report import Report
from habana_tf.reports.table import Table
from habana_tf.reports.units import few, size
from habana_tf.resolver.placements import Line, OpCalls, Placements, Program, placements

MOST_ROWS = 20
"""Programs, graphs and lines in a table; all are in `to_dict()`."""
_MOST_NAMES = 4
"""Ops, layers and lines in a cell."""
NOTHING = (
    "HPU placement: no graph has been optimized in this process. Under TensorFlow put the step into tf.function, or "
    "call Keras' fit; under PyTorch nothing ran on HPU yet. Ops outside of graphs are below."
)


@dataclass(frozen=True, repr=False)
class PlacementReport(Report):
    """Where ops ran in this process. `print(report)` shows tables; a notebook shows them too.

    recorded: programs of recorded ops, ops of the host, and lines of the user's program that end programs.
    """

    recorded: Placements = field(default_factory=Placements, kw_only=True)

    @property
    def cpu_ops(self) -> tuple[OpCalls, ...]:
        """The ops that were recorded nowhere and ran on the CPU."""
        return self.recorded.cpu

    def summary(self) -> str:
        programs = len(self.recorded.programs) + self.recorded.earlier
        left = sum(each.count for each in self.cpu_ops)
        return f"{programs} recorded programs, {left} calls of {len({each.op for each in self.cpu_ops})} ops on the CPU"

    def shown(self) -> list[str | Table]:
        return recorded_tables(self.recorded) or [NOTHING]

    def to_dict(self) -> dict[str, Any]:
        """{programs: [{name, ops, inputs, outputs, updated, scopes}], cpu_ops and host_operands: [{op, reason, count,
        nbytes, layers, lines}], program_ends and traced: [{what, line, why, count, programs}], steps}"""
        known = self.recorded
        parts: dict[str, Sequence[Program | OpCalls | Line]] = {
            "programs": known.programs, "cpu_ops": known.cpu, "host_operands": known.copied,
            "program_ends": known.ends, "traced": known.traced,
        }  # fmt: skip
        return {**{name: [asdict(each) for each in part] for name, part in parts.items()}, "steps": known.steps}


def _of_recorded(known: Placements) -> PlacementReport:
    return PlacementReport(recorded=known)


_made: Callable[[Placements], PlacementReport] = _of_recorded


def made_by(make: Callable[[Placements], PlacementReport]) -> None:
    """Has a front end make the report, of what is recorded and of what it knows besides."""
    global _made
    _made = make


def placement_report() -> PlacementReport:
    """Where the ops of this process run, and why: of every graph, of programs of recorded ops, and eagerly."""
    return _made(placements())


def recorded_tables(known: Placements) -> list[str | Table]:
    """The programs of a front end that records ops, what the host had a part in, and the lines that end programs."""
    out: list[str | Table] = []
    if known.programs or known.ops:
        shapes = Counter(p.name for p in known.programs)
        last_of = {p.name: p for p in known.programs}  # one for each shape that it met
        last = f", the last of {known.earlier + len(known.programs):,}" if known.earlier else ""
        title = f"HPU placement: programs of recorded ops{last}"
        rows = [(p, ", ".join(p.scopes), shapes[p.name]) for p in [*last_of.values()][-MOST_ROWS:]]
        out.append(program_table(rows, title) if rows else f"{title}: none of several ops")
    if known.cpu:
        out.append(op_table(known.cpu, "On the CPU, on the card's memory; a real card copies to the host and back"))
        out.append("to have them on HPU: use ops that have a row in the table of overloads (docs/torch.md)")
    if known.copied:
        out.append(op_table(known.copied, "Operands of the host, copied at each call"))
        out.append("to save the copies: make these tensors on the card, or move them once with .to('hpu')")
    if known.ends:
        out.append(_ends(known))
    if known.traced:
        traced = [(each.count, each.what, each.why, each.line) for each in known.traced[:MOST_ROWS]]
        out.append(Table([">times", "what", "why", "at"], traced, "Why torch.compile made one more graph"))
    return out


def program_table(programs: Iterable[tuple[Program, str, int]], title: str) -> Table:
    """Programs, each with what it is in, and for how many shapes it was made where that is counted."""
    rows = []
    for p, where, shapes in programs:
        most = few([op if n == 1 else f"{n} {op}" for op, n in p.ops.items()], _MOST_NAMES, "ops")
        rows.append((p.name, shapes or "", where, sum(p.ops.values()), most, p.inputs, p.outputs, p.updated))
    return _filled(["program", ">shapes", "in", ">ops", "most", ">inputs", ">outputs", ">updates"], rows, title)


def op_table(ops: Iterable[OpCalls], title: str) -> Table:
    """Ops with how often they ran, what they copy, why, and where they are called, as far as it is known."""
    rows = [
        (op.op, op.count or "", size(op.nbytes) if op.nbytes else "", op.reason,
         few(op.layers, _MOST_NAMES, "layers"), few(op.lines, _MOST_NAMES, "lines"))
        for op in ops
    ]  # fmt: skip
    return _filled(["op", ">count", ">copied", "reason", "in", "at"], rows, title)


def _filled(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str) -> Table:
    """A table without the columns in which no row has anything."""
    kept = [k for k in range(len(columns)) if any(row[k] != "" for row in rows)]
    return Table([columns[k] for k in kept], [[row[k] for k in kept] for row in rows], title)


def _ends(known: Placements) -> Table:
    """The lines that end programs or read values, by steps where there are any."""
    steps = known.steps
    rows = [(e.count, f"{e.count / steps:.3g}" if steps else "", e.programs, e.what, e.line or "the backward pass")
            for e in known.ends[:MOST_ROWS]]  # fmt: skip
    of = f", in {steps:,} step{'' if steps == 1 else 's'}" if steps else ""
    more = len(known.ends) - MOST_ROWS
    title = f"What ends programs, and what the host waits for{of}" + (f"; {more} more lines" if more > 0 else "")
    return Table([">times", ">a step", ">programs", "what", "at"], rows, title)
