"""Which modules of a model compile anew at which step, and why, by the records of `recompilation_report()`.

    net = detect_recompilation_auto_model(net)
    for batch in batches: step(net, batch)
    net.analyse_dynamicity()             prints the tables and writes out_1.csv and out_2.csv

What was recorded runs at the beginning and the end of each module's forward pass, so that every program is of one
module: the innermost whose forward pass was under way, or none for the backward pass and the optimizer. A step is a
call of the whole model, with what follows up to the next. Programs are what a card may have to compile: one that a
recipe for a range of sizes serves here counts, too.
"""

from __future__ import annotations

import csv
import functools
import inspect
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from types import MethodType
from typing import Any

import torch
from torch.utils import _pytree as pytree

from habana_tf.reports.report import Report
from habana_tf.reports.table import Table
from habana_tf.resolver.recompilations import Met, RecompilationReport, recompilation_report
from habana_tf.torch.device.changing_shapes import get_shape
from habana_tf.torch.record import current

__all__ = ["detect_recompilation_auto_model"]

_COLUMNS = ("Step", "Recompiling modules", "New in", "New out", "Class", "Location", "Comment")
"""Of the file that scripts for Gaudi read."""


@dataclass
class _Part:
    """A module of the model, or what is outside of it. inputs, results: the shapes that its calls had."""

    name: str
    kind: str = ""
    file: str = ""
    inputs: set[Hashable] = field(default_factory=set)
    results: set[Hashable] = field(default_factory=set)


@dataclass
class _Row:
    """What a part compiled in a step."""

    step: int
    part: _Part
    new_input: bool = False
    new_result: bool = False
    programs: int = 0
    why: list[str] = field(default_factory=list)


class Recompiling(Report):
    """The programs of a model so far."""

    def __init__(self, name: str) -> None:
        self.outside = _Part(f"outside of {name}")
        self.rows: dict[tuple[int, str], _Row] = {}
        self.lines: list[str] = []
        self._under_way = [self.outside]
        self._step = -1
        self._known = recompilation_report()

    def call(self, part: _Part, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a module's forward pass and notes what it compiled."""
        self.note()
        self._step += len(self._under_way) == 1
        row = self._row(part)
        row.new_input |= _added(part.inputs, (args, kwargs))
        self._under_way.append(part)
        try:
            result = forward(*args, **kwargs)
            self.note()
        finally:
            self._under_way.pop()
        row.new_result |= _added(part.results, result)
        return result

    def note(self) -> None:
        """Runs what was recorded; the programs that are new are those of the part under way."""
        current.recorder().flush()
        before, self._known = self._known, recompilation_report()
        programs, why = _new(before, self._known)
        if not programs:
            return
        row = self._row(self._under_way[-1])
        row.programs += programs
        row.why.extend(each for each in why if each not in row.why)
        said = f": {'; '.join(why)}" if why else ""
        self.lines.append(f"step {row.step}, {row.part.name}: {programs} new program{'s' * (programs > 1)}{said}")

    def _row(self, part: _Part) -> _Row:
        return self.rows.setdefault((self._step, part.name), _Row(self._step, part))

    @property
    def compiled(self) -> list[_Row]:
        """What compiled anything, in order."""
        return [row for row in self.rows.values() if row.programs]

    def counts(self) -> list[tuple[str, int]]:
        """In how many steps each part compiled anything, the most first."""
        return Counter(row.part.name for row in self.compiled).most_common()

    def table(self) -> list[tuple[Any, ...]]:
        """The rows under `_COLUMNS`."""
        return [
            (row.step, row.part.name, row.new_input, row.new_result, row.part.kind, row.part.file, _comment(row))
            for row in self.compiled
        ]

    def summary(self) -> str:
        steps = {row.step for row in self.compiled if row.step > 0}
        return (
            f"{sum(r.programs for r in self.compiled):,} programs; {len(steps):,} steps after the first compiled some"
        )

    def to_dict(self) -> dict[str, Any]:
        return {"rows": [dict(zip(_COLUMNS, row, strict=True)) for row in self.table()], "modules": dict(self.counts())}

    def shown(self) -> list[str | Table]:
        rows = [(r.step, r.part.name, r.programs, _comment(r)) for r in self.compiled]
        return [
            Table((">step", "module", ">programs", "why"), rows), Table((">steps", "module"), _turned(self.counts())),
            self.summary(),
        ]  # fmt: skip

    def write(self, path: str) -> None:
        """Writes path_1.csv, a line for each step and module, and path_2.csv, a line for each module."""
        for number, columns, rows in (
            (1, _COLUMNS, self.table()), (2, ("Module name", "Recompile count"), self.counts()),
        ):  # fmt: skip
            with open(f"{path}_{number}.csv", "w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(columns)
                writer.writerows(rows)


def _turned(pairs: list[tuple[str, int]]) -> list[tuple[int, str]]:
    return [(count, name) for name, count in pairs]


def _added(known: set[Hashable], value: Any) -> bool:
    """Adds the shapes of a call; whether they are new."""
    shapes = tuple(get_shape(each) for each in pytree.tree_leaves(value))
    new = shapes not in known
    known.add(shapes)
    return new


def _new(before: RecompilationReport, after: RecompilationReport) -> tuple[int, list[str]]:
    """How many signatures were met between two reports, and what is new about them. The earlier report holds its
    records, so that no other can be where they were."""
    known = {id(met) for cluster in before.clusters for met in cluster.met}
    found = [met for cluster in after.clusters for met in cluster.met if id(met) not in known]
    single = {op: sum(counts.values()) - sum(before.one_op.get(op, {}).values()) for op, counts in after.one_op.items()}
    ops = [f"{op}{_line(before, after, op)}" for op, count in single.items() if count]
    why = [text for met in found if (text := _reason(met))]
    return len(found) + sum(single.values()), why + ([f"ops by themselves: {', '.join(ops)}"] if ops else [])


def _line(before: RecompilationReport, after: RecompilationReport, op: str) -> str:
    """Where an op by itself was called with shapes that are new between two reports."""
    known = before.lines.get(op, {})
    new = [line for line, count in after.lines.get(op, {}).items() if count != known.get(line, 0)]
    return f" at {', '.join(new[:2])}" if new else ""


def _reason(met: Met) -> str:
    return ", ".join(map(str, met.changed)) or met.because


def _comment(row: _Row) -> str:
    if row.step == 0:
        return "first step"
    told = "; ".join(row.why)
    if row.new_input:
        return f"its arguments have new shapes; {told}" if told else "its arguments have new shapes"
    return told or "other ops than before"


def detect_recompilation_auto_model(
    model: torch.nn.Module, mdlname: str = "Net", waittime: float = 1, csv_out: str = "out"
) -> torch.nn.Module:
    """The model itself, watched from now on, with two more methods. `analyse_dynamicity()` prints which modules
    compiled at which step and why, and writes csv_out_1.csv and csv_out_2.csv; `raw_logs()` gives a line for each time
    that there were new programs. waittime: Habana's waits so long for its compiler; a launch here has ended when it
    returns. Raises ValueError for a model that is watched already."""
    if hasattr(model, "analyse_dynamicity"):
        raise ValueError(f"{type(model).__name__} is watched for recompilations already")
    found = Recompiling(mdlname)
    for path, module in model.named_modules():
        name = "/".join([mdlname, *path.split(".")]) if path else mdlname
        source = inspect.getsourcefile(type(module)) if type(module).__module__ != "__main__" else None
        part = _Part(name, f"{type(module).__module__}.{type(module).__qualname__}", source or "__main__")
        module.forward = _watched(found, part, module.forward)

    def analyse_dynamicity(self: torch.nn.Module) -> None:
        found.note()
        print(found)
        found.write(csv_out)

    def raw_logs(self: torch.nn.Module) -> list[str]:
        found.note()
        return found.lines

    model.analyse_dynamicity = MethodType(analyse_dynamicity, model)
    model.raw_logs = MethodType(raw_logs, model)
    return model


def _watched(found: Recompiling, part: _Part, forward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        return found.call(part, forward, args, kwargs)

    return call
