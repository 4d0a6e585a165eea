"""Totals of a part: launches and time by program, host time by kernel, predicted time by unit of work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from habana_tf.card.timeline.record import EventKind
from habana_tf.reports.layer_names import pass_of


@dataclass
class KernelTotals:
    """A kernel in all launches of its program, on this host. row: see `part`. calls: how often it was called;
    host_seconds: that took in all."""

    row: dict[str, Any]
    calls: int = 0
    host_seconds: float = 0.0


@dataclass
class ProgramTotals:
    """launches, host_seconds: of all launches. card: the prediction of one (see `intervals.CardLaunch`); None where
    its program was forgotten. kernels: what this host ran; the card's units are in `card`."""

    number: int
    name: str
    launches: int = 0
    host_seconds: float = 0.0
    card: dict[str, Any] | None = None
    kernels: list[KernelTotals] = field(default_factory=list)

    @property
    def card_seconds(self) -> float:
        """Of all launches, on the card; 0 where nothing is predicted."""
        return self.launches * (self.card["seconds"] if self.card else 0.0)

    @property
    def units(self) -> list[dict[str, Any]]:
        """The card's units of work in a launch, see `intervals.Interval`."""
        return self.card["intervals"] if self.card else []

    @property
    def drawn(self) -> float:
        """What the units' own seconds were multiplied by, see `intervals.CardLaunch`."""
        return float(self.card["drawn"]) if self.card else 1.0

    def by_host(self) -> dict[tuple[str, ...], float]:
        """Seconds on this host of all launches, by path: see `by_path`."""
        return by_path((k.row["name"], k.row["engine"], k.row["ops"], k.host_seconds) for k in self.kernels)

    def by_card(self) -> dict[tuple[str, ...], float]:
        """Seconds of the card's engines in all launches, by path: see `by_path`."""
        return by_path((u["name"], u["engine"], u["ops"], u["seconds"] * self.launches) for u in self.units)


@dataclass(frozen=True)
class Totals:
    """Host seconds by kind of event; launches may overlap on several threads. seconds: of the whole recording."""

    seconds: float
    by_kind: Mapping[EventKind, float]
    counts: Mapping[EventKind, int]


def totals(part: dict[str, Any]) -> Totals:
    seconds: Counter[EventKind] = Counter()
    counts: Counter[EventKind] = Counter()
    for thread in part["threads"]:
        for start, end, _, kind, *_ in thread["events"]:
            seconds[EventKind(kind)] += end - start
            counts[EventKind(kind)] += 1
    by_kind = {kind: n / 1e9 for kind, n in seconds.items()}
    return Totals((part["end"] - part["begin"]) / 1e9, by_kind, counts)


def programs(part: dict[str, Any]) -> list[ProgramTotals]:
    """The programs that were launched, by how long they take the card and then took the host, the longest first."""
    found: dict[int, ProgramTotals] = {}
    times: dict[int, Counter[int]] = {}
    calls: dict[int, Counter[int]] = {}
    for thread in part["threads"]:
        for start, end, subject, kind, detail, *_ in thread["events"]:
            if kind == EventKind.LAUNCH:
                known = part["programs"].get(str(subject), {})
                program = found.setdefault(
                    subject, ProgramTotals(subject, known.get("name", "a program"), card=known.get("card"))
                )
                program.launches += 1
                program.host_seconds += (end - start) / 1e9
            elif kind == EventKind.KERNEL_CALL:
                times.setdefault(subject, Counter())[detail] += end - start
                calls.setdefault(subject, Counter())[detail] += 1
    for number, program in found.items():
        for row in part["programs"].get(str(number), {}).get("kernels", []):
            mine = range(row["calls"][0], sum(row["calls"]))
            most = max((calls.get(number, Counter())[k] for k in mine), default=0)
            took = sum(times.get(number, Counter())[k] for k in mine) / 1e9
            program.kernels.append(KernelTotals(row, most, took))
    return sorted(found.values(), key=lambda p: (-p.card_seconds, -p.host_seconds))


def by_path(work: Iterable[tuple[str, str, Iterable[str], float]]) -> dict[tuple[str, ...], float]:
    """Seconds by the path of an op's name: ("forward" or "backward" or "update", scope, ..., op). Names may say the
    pass (`layer_names.pass_of`). Where they do not, an op that assigns and is no product is of the update, and so are
    all ops in its outermost scope if that has no products (an optimizer's scope).

    work: the op's name, the engine, type and name of all ops in it, and the seconds, of each kernel or unit.
    """
    rows = []
    for name, engine, ops, seconds in work:
        # A product may have the update of a statistic or of its weights fused to it; it is called after the product.
        assigns = engine != "MME" and any(
            "Assign" in op.split(" ", 1)[0] or "ResourceApply" in op for op in ops
        )  # fmt: skip
        said, rest = pass_of(name)
        rows.append((said, assigns, engine, tuple(rest.split("/")), seconds))
    scopes = {path[0] for _, assigns, _, path, _ in rows if assigns and len(path) > 1}
    scopes -= {path[0] for _, _, engine, path, _ in rows if engine == "MME"}
    found: dict[tuple[str, ...], float] = {}
    for said, assigns, _, path, seconds in rows:
        pass_ = said or ("update" if assigns or path[0] in scopes else "forward")
        whole = (pass_, *path)
        found[whole] = found.get(whole, 0.0) + seconds
    return found
