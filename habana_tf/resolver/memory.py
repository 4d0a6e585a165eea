"""Reports the card's memory: the figures of the framework's allocator, and the exact bytes of each launch's plan.

An allocator rounds sizes up and knows nothing of what a launch needs inside. A launch that updates variables writes
their new values beside the old ones, where the framework swaps the buffers only afterwards; a card would write in
place. So each launch has two peaks: what this host needs, and what the card would.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from dataclasses import asdict, dataclass
from typing import Any

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


@dataclass(frozen=True)
class MemoryReport:
    """hbm: bytes of the card. current and peak: what the framework's allocator has given out. launches: exact
    plans, of each cluster the last few."""

    hbm: int
    current: int
    peak: int
    launches: tuple[LaunchMemory, ...]

    def to_json(self) -> str:
        """{hbm, current, peak, launches: [{name, inputs, ..., host_peak, card_peak}]}, all in bytes."""
        rows = [{**asdict(x), "host_peak": x.host_peak, "card_peak": x.card_peak} for x in self.launches]
        shown = {"hbm": self.hbm, "current": self.current, "peak": self.peak, "launches": rows}
        return json.dumps(shown, indent=2)

    def __rich__(self) -> Any:
        from rich.table import Table

        title = f"HPU:0: {_mib(self.current)} in use, {_mib(self.peak)} at most, of {_mib(self.hbm)}"
        table = Table(title=title, title_justify="left")
        for column in ("launch", "inputs", "outputs", "workspace", "peak here", "peak on a card"):
            table.add_column(column, justify="left" if column == "launch" else "right")
        for x in self.launches:
            sizes = (x.inputs, x.outputs, x.workspace, x.host_peak, x.card_peak)
            table.add_row(x.name, *map(_mib, sizes))
        return table

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=110, force_jupyter=False)
        with console.capture() as captured:
            console.print(self)
        return captured.get()


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


def _mib(n: int) -> str:
    return f"{n / (1 << 20):,.1f} MiB"
