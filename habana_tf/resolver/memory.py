"""Reports the card's memory: the figures of the framework's allocator, and the exact bytes of each launch's plan.

An allocator rounds sizes up and knows nothing of what a launch needs inside. A launch that updates variables writes
their new values beside the old ones, where the framework swaps the buffers only afterwards; a card would write in
place. So each launch has two peaks: what this host needs, and what the card would.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import asdict, dataclass
from typing import Any

from habana_tf.reports.report import Report
from habana_tf.reports.table import Table
from habana_tf.reports.units import size

_lock = threading.Lock()
_plans: OrderedDict[str, OrderedDict[tuple[int, int, int], LaunchMemory]] = OrderedDict()
"""Per cluster, the one met last at the end, its last plans by bytes of inputs, outputs and workspace."""
MOST_CLUSTERS, MOST_PLANS = 4096, 8


@dataclass(frozen=True)
class LaunchMemory:
    """One cluster on given shapes, in bytes. updates: the part of `outputs` that replaces variables.

    alive: most of the workspace in use at one moment; workspace: what is set aside for it.
    """

    name: str
    inputs: int
    outputs: int
    updates: int
    workspace: int
    alive: int

    @property
    def host_peak(self) -> int:
        """Bytes needed here while it runs."""
        return self.inputs + self.outputs + self.workspace

    @property
    def card_peak(self) -> int:
        """Bytes a card would need: variables are updated in place, and the plan wastes nothing."""
        return self.inputs + self.outputs - self.updates + self.alive


@dataclass(frozen=True, repr=False)
class MemoryReport(Report):
    """hbm: bytes of the card. current and peak: what the framework's allocator has given out. launches: exact
    plans, of each cluster the last few."""

    hbm: int
    current: int
    peak: int
    launches: tuple[LaunchMemory, ...]

    def summary(self) -> str:
        return f"HPU:0, {size(self.current)} in use, {size(self.peak)} at most, of {size(self.hbm)}"

    def to_dict(self) -> dict[str, Any]:
        """{hbm, current, peak, launches: [{name, inputs, ..., host_peak, card_peak}]}, all in bytes."""
        rows = [{**asdict(x), "host_peak": x.host_peak, "card_peak": x.card_peak} for x in self.launches]
        return {"hbm": self.hbm, "current": self.current, "peak": self.peak, "launches": rows}

    def shown(self) -> list[str | Table]:
        columns = ["launch", ">inputs", ">outputs", ">workspace", ">peak here", ">on a card"]
        rows = [
            (x.name, *map(size, (x.inputs, x.outputs, x.workspace, x.host_peak, x.card_peak))) for x in self.launches
        ]
        return [self.summary(), *([Table(columns, rows)] if rows else [])]


def record(plan: LaunchMemory) -> None:
    """Notes the plan of a launch that was bound to shapes."""
    with _lock:
        known = _plans.setdefault(plan.name, OrderedDict())
        _last(_plans, plan.name, known, MOST_CLUSTERS)
        _last(known, (plan.inputs, plan.outputs, plan.workspace), plan, MOST_PLANS)


def _last(table: OrderedDict[Any, Any], key: object, value: object, most: int) -> None:
    """Puts an item at the end of a table that keeps its last ones."""
    table[key] = value
    table.move_to_end(key)
    if len(table) > most:
        table.popitem(last=False)


def report(current: int, peak: int) -> MemoryReport:
    """The memory of this process's card. current, peak: bytes, of the framework's allocator."""
    from habana_tf.hardware.chips import chip

    with _lock:
        launches = tuple(plan for known in _plans.values() for plan in known.values())
    return MemoryReport(chip().hbm_bytes, current, peak, launches)
