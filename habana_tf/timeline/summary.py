"""Sums over a part: time and launches by program, and by kernel what it took here and would take on the card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .record import Kind

__all__ = ["Kernel", "Program", "Totals", "by_path", "programs", "totals"]


@dataclass
class Kernel:
    """A kernel in all launches of its program. row: see `part`. calls: how often it was called; host_seconds: that
    took here, in all; card_seconds: what the card takes for it in one launch, None where nothing is predicted."""

    row: dict[str, Any]
    calls: int = 0
    host_seconds: float = 0.0
    card_seconds: float | None = None


@dataclass
class Program:
    """launches, host_seconds: of all launches. card: the prediction of one, see `part`."""

    number: int
    name: str
    launches: int = 0
    host_seconds: float = 0.0
    card: dict[str, Any] | None = None
    kernels: list[Kernel] = field(default_factory=list)

    @property
    def card_seconds(self) -> float:
        """Of all launches, on the card; 0 where nothing is predicted."""
        return self.launches * (self.card["seconds"] if self.card else 0.0)


@dataclass(frozen=True)
class Totals:
    """Host seconds by kind of event; launches may overlap on several threads. seconds: of the whole recording."""

    seconds: float
    by_kind: Mapping[Kind, float]
    counts: Mapping[Kind, int]


def totals(part: dict[str, Any]) -> Totals:
    """Of a part."""
    seconds: Counter[Kind] = Counter()
    counts: Counter[Kind] = Counter()
    for thread in part["threads"]:
        for start, end, _, kind, *_ in thread["events"]:
            seconds[Kind(kind)] += end - start
            counts[Kind(kind)] += 1
    by_kind = {kind: n / 1e9 for kind, n in seconds.items()}
    return Totals((part["end"] - part["begin"]) / 1e9, by_kind, counts)


def programs(part: dict[str, Any]) -> list[Program]:
    """The programs that were launched, those first that take the card longest, then those that took the host longest.

    Predicted intervals belong to kernels by name, in their order; where a model splits or joins kernels, those of one
    name share its time.
    """
    found: dict[int, Program] = {}
    times: dict[int, Counter[int]] = {}
    calls: dict[int, Counter[int]] = {}
    for thread in part["threads"]:
        for start, end, subject, kind, detail, *_ in thread["events"]:
            if kind == Kind.LAUNCH:
                known = part["programs"].get(str(subject), {})
                program = found.setdefault(
                    subject, Program(subject, known.get("name", "a program"), card=known.get("card"))
                )
                program.launches += 1
                program.host_seconds += (end - start) / 1e9
            elif kind == Kind.KERNEL_CALL:
                times.setdefault(subject, Counter())[detail] += end - start
                calls.setdefault(subject, Counter())[detail] += 1
    for number, program in found.items():
        rows = part["programs"].get(str(number), {}).get("kernels", [])
        on_card: dict[str, list[float]] = {}
        for _, _, seconds, name, *_ in (program.card or {"intervals": []})["intervals"]:
            on_card.setdefault(name, []).append(seconds)
        named = Counter(row["name"] for row in rows)
        met: Counter[str] = Counter()
        for row in rows:
            mine = range(row["calls"][0], sum(row["calls"]))
            each = on_card.get(row["name"], [])
            matching = len(each) == named[row["name"]]
            predicted = each[met[row["name"]]] if matching else sum(each) / named[row["name"]]
            met[row["name"]] += 1
            program.kernels.append(
                Kernel(
                    row,
                    max((calls.get(number, Counter())[k] for k in mine), default=0),
                    sum(times.get(number, Counter())[k] for k in mine) / 1e9,
                    predicted if program.card else None,
                )
            )
    return sorted(found.values(), key=lambda p: (-p.card_seconds, -p.host_seconds))


def by_path(program: Program) -> dict[tuple[str, ...], float]:
    """Host seconds of a program's kernels by the path of their op's name: ("forward" or "backward" or "update", scope,
    ..., op). An op under gradient_tape/ is of the backward pass, one that assigns and is no product of the update."""
    found: dict[tuple[str, ...], float] = {}
    for kernel in program.kernels:
        name = kernel.row["name"]
        backward = name.startswith(("gradient_tape/", "gradients/"))
        # A product may have the update of a statistic or of its weights fused to it; it is called after the product.
        updates = kernel.row["engine"] != "MME" and any(
            "Assign" in op.split(" ", 1)[0] or "ResourceApply" in op for op in kernel.row["ops"]
        )
        pass_ = "backward" if backward else "update" if updates else "forward"
        path = name.removeprefix("gradient_tape/").removeprefix("gradients/").split("/")
        whole = (pass_, *path)
        found[whole] = found.get(whole, 0.0) + kernel.host_seconds
    return found
