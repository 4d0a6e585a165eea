"""The memory of the card: what holds it now and what held it at the peak, by category, with the peak's owner.

Each column sums up to what the framework's allocator has given out, because the last row is what no other row explains.

    weights, optimizer   variables that are trained; the optimizer's own
    other variables      statistics of normalizations, metrics, counters, random state
    inputs               what the launch reads that is no variable: the batch
    activations, gradients, workspace: of the launch at its peak, see `launch_peak`; what another launch made and this
                         one reads is an activation as well
    outputs              results of the launch; new values of variables that are not written over the old ones
    tensors              what the program itself holds now
    REST                 an allocator gives up to twice what was asked for, and holds tensors between launches

The owner is the launch during which most of the card was given out, as far as a first launch tells. Variables are
counted as they are now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from habana_tf.hardware.chips import chip
from habana_tf.reports.bar import bar
from habana_tf.reports.report import Report
from habana_tf.reports.table import Table
from habana_tf.reports.units import few, size
from habana_tf.resolver import memory, programs
from habana_tf.resolver.launch_peak import LaunchPeak, launch_peak
from habana_tf.resolver.memory import LaunchMemory

REST = "rounding of the allocator, tensors between launches"
VARIABLES = ("weights", "optimizer", "other variables")
CATEGORIES = (*VARIABLES, "activations", "gradients", "workspace", "inputs", "outputs", "tensors")
_FEW = 3
_ROWS = 12
"""Launches that are shown, the largest."""


@dataclass(frozen=True, repr=False)
class MemoryReport(Report):
    """hbm: bytes of the card. current and peak: what the framework's allocator has given out. now, at_peak: bytes by
    category, which sum up to `current` and to `peak`. owner: the launch at the peak, None where there was none, or
    none that fits beneath it; owner_peak: what is in its workspace then. launches: exact plans, of each cluster the
    last few."""

    hbm: int
    current: int
    peak: int
    now: dict[str, int]
    at_peak: dict[str, int]
    owner: LaunchMemory | None
    owner_peak: LaunchPeak = field(default_factory=LaunchPeak)
    launches: tuple[LaunchMemory, ...] = ()

    def summary(self) -> str:
        return f"HPU:0, {size(self.current)} in use, {size(self.peak)} at most, of {size(self.hbm)}"

    def to_dict(self) -> dict[str, Any]:
        """{hbm, current, peak, now: {category: n}, at_peak: {category: n}, owner: {name, ..., op, layers, curve},
        launches: [{name, inputs, ..., host_peak, card_peak}]}, all in bytes."""
        owner = self.owner and {**_row(self.owner), **asdict(self.owner_peak)}
        return {
            "hbm": self.hbm, "current": self.current, "peak": self.peak, "now": self.now, "at_peak": self.at_peak,
            "owner": owner, "launches": [_row(x) for x in self.launches],
        }  # fmt: skip

    def shown(self) -> list[str | Table]:
        names = [name for name in (*CATEGORIES, REST) if self.now.get(name) or self.at_peak.get(name)]
        rows = [(name, *(size(x[name]) if x.get(name) else "" for x in (self.now, self.at_peak))) for name in names]
        rows.append(("all", size(self.current), size(self.peak)))
        out: list[str | Table] = [
            self.summary(),
            Table(["what the card holds", ">now", ">at the peak"], rows),
            *self._owner(),
        ]
        columns = ["launch", ">inputs", ">outputs", ">workspace", ">peak here", ">on a card"]
        most = sorted(self.launches, key=lambda x: -x.host_peak)
        plans = [
            (x.name, *map(size, (x.inputs, x.outputs, x.workspace, x.host_peak, x.card_peak))) for x in most[:_ROWS]
        ]
        more = [f"and {len(most) - _ROWS:,} smaller ones"] if len(most) > _ROWS else []
        return [*out, *([Table(columns, plans)] if plans else []), *more]

    def _owner(self) -> list[str]:
        """The owner of the peak, and its workspace over the launch."""
        if self.owner is None:
            return []
        found = self.owner_peak
        where = f"{self.owner.name}" + (f", at {found.op}" if found.op and found.op != self.owner.name else "")
        owners = few([f"{name} {size(n)}" for name, n in found.layers.items()], _FEW)
        lines = [f"the peak is in {where}" + (f"; its workspace is of {owners}" if owners else "")]
        if any(found.curve):
            lines.append(f"its workspace over the launch: {bar(found.curve)}")
        beyond = self.peak - self.owner.reached
        if beyond > self.peak // 20:
            lines.append(f"{size(beyond)} more were given out than at its first launch and by its plan: see {REST!r}")
        return lines


def _row(x: LaunchMemory) -> dict[str, Any]:
    return {**asdict(x), "host_peak": x.host_peak, "card_peak": x.card_peak}


Source = Callable[[], tuple[int, int, Mapping[str, int]]]
"""What a framework holds: bytes given out now, the most of them, and `held` of `report`."""
_sources: list[Source] = []


def add_source(source: Source) -> None:
    """A framework has the device from now on."""
    if source not in _sources:
        _sources.append(source)


def memory_report() -> MemoryReport:
    """The memory of this process's card: what holds it now, and what held it at the peak.

    Both sum up to what the framework's allocator has given out; of two frameworks in one process their sums are shown.
    Raises RuntimeError when the device is not loaded.
    """
    if not _sources:
        raise RuntimeError(
            "HPU is not loaded: call habana_tf.load_habana_module(), or for PyTorch import habana_frameworks.torch.core"
        )
    current = peak = 0
    held: Counter[str] = Counter()
    for source in _sources:
        now, most, parts = source()
        current, peak = current + now, peak + most
        held.update(parts)
    return report(chip().hbm_bytes, current, peak, held)


def report(hbm: int, current: int, peak: int, held: Mapping[str, int]) -> MemoryReport:
    """The memory of this process's card. hbm, current, peak: bytes, see `MemoryReport`; held: of the variables by
    category, and of the "tensors" that the program holds."""
    plans = memory.launches()
    variables = {name: held.get(name, 0) for name in VARIABLES}
    room = current - sum(variables.values())
    # Tensors can share memory with each other and with variables: they are not more than there is.
    now = _closed({**variables, "tensors": max(0, min(held.get("tensors", 0), room))}, current)
    owner = _highest((*plans, *memory.one_op()), peak, peak - sum(variables.values()))
    if owner is None:
        return MemoryReport(hbm, current, peak, now, _closed(variables, peak), None, LaunchPeak(), plans)
    made = programs.find(owner.program)
    inside = launch_peak(made) if made is not None else LaunchPeak()
    parts = dict(inside.parts)
    parts["activations"] = parts.get("activations", 0) + owner.made
    parts["workspace"] = parts.get("workspace", 0) + owner.workspace - sum(inside.parts.values())
    at_peak = {
        **variables, **parts, "inputs": owner.fed - owner.made, "outputs": owner.outputs - owner.in_place,
    }  # fmt: skip
    return MemoryReport(hbm, current, peak, now, _closed(at_peak, peak), owner, inside, plans)


def _closed(parts: Mapping[str, int], whole: int) -> dict[str, int]:
    """The categories with the one that is left, in the order in which they are shown."""
    found = {**parts, REST: whole - sum(parts.values())}
    return {name: found[name] for name in (*CATEGORIES, REST) if name in found}


def _highest(plans: Iterable[LaunchMemory], peak: int, room: int) -> LaunchMemory | None:
    """The launch that reached most, of those that did not reach more than the peak (which a program can reset) and have
    room beside the variables."""
    fit = (plan for plan in plans if plan.reached <= peak and plan.fed + plan.adds <= room)
    return max(fit, key=lambda plan: plan.reached, default=None)
