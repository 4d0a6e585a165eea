"""The answer to `plan()`: which cards, with which batch and precision, reach a target, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from habana_tf.card.model.step_time import StepTime
from habana_tf.card.prediction.limits import Limits
from habana_tf.card.prediction.target import SECONDS_PER_HOUR, TrainingTarget
from habana_tf.reports.report import Report
from habana_tf.reports.table import Table
from habana_tf.reports.units import duration, size

WATTS = {"gaudi": 350, "gaudi2": 600, "gaudi3": 900}
"""Power limit of one card as published (TDP; of Gaudi3 as an OAM, HL-325L's firmware reports 850)."""
SHORT = {"waiting for cards": "waiting"}
"""Names of bounds that would make the table too wide."""
PER_HOUR_KILO = 1000 * SECONDS_PER_HOUR
"""Joules of a kilowatt-hour."""


@dataclass(frozen=True)
class PlanRow:
    """A job on so many cards: `batch` examples on each, in each of `accumulate` micro-batches before an update. watts:
    of all cards at their power limit, with hosts where theirs were given."""

    batch: int
    accumulate: int
    precision: str
    step: StepTime = field(repr=False)
    limits: Limits
    target: TrainingTarget
    watts: float

    @property
    def chip(self) -> str:
        return self.step.chip.name

    @property
    def cards(self) -> int:
        return self.step.cards

    @property
    def times(self) -> str:
        """How many micro-batches before an update, and examples of one: 4 x 32"""
        return f"{self.accumulate} x {self.batch}" if self.accumulate > 1 else f"{self.batch}"

    @property
    def global_batch(self) -> int:
        """Examples between two updates."""
        return self.batch * self.accumulate * self.cards

    @property
    def examples_per_second(self) -> float:
        return self.global_batch / self.limits.seconds if self.limits.seconds else 0.0

    @property
    def hours(self) -> float | None:
        """Of the whole job; None if its size was not given."""
        return self.target.hours(self.examples_per_second)

    @property
    def kwh(self) -> float | None:
        return None if self.hours is None else self.watts * self.hours / 1000

    @property
    def kwh_per_million(self) -> float:
        """For a million examples."""
        rate = self.examples_per_second
        return self.watts * 1e6 / rate / PER_HOUR_KILO if rate else 0.0

    @property
    def hbm_bytes(self) -> int:
        """That one card needs, what its firmware keeps included."""
        return self.step.hbm_bytes + self.step.chip.idle_memory_bytes

    @property
    def lost(self) -> dict[str, float]:
        """Shares of the step in which the cards' engines do not compute: the network alone, waiting for other cards,
        and for the host (its input, Python, or feeding the cards over PCIe)."""
        whole = self.limits.seconds or 1.0
        return {
            "network": self.step.network_alone / whole,
            "waiting": self.step.waiting / whole,
            "host": (self.limits.seconds - self.step.working) / whole,
        }

    def to_dict(self) -> dict[str, Any]:
        names = "chip cards batch accumulate global_batch precision examples_per_second hours kwh kwh_per_million watts"
        rest = {"step_seconds": self.limits.seconds, "hbm_bytes": self.hbm_bytes, "lost": self.lost}
        return {**{n: getattr(self, n) for n in names.split()}, **rest, "limits": self.limits.to_dict()}


@dataclass(frozen=True, repr=False)
class Plan(Report):
    """What reaches a target: `rows`, the fewest cards first, of as many that with the least energy. Iterate for them.

    left_out: why the others are not among them, a sentence each. scaling: the first row on other numbers of cards.
    """

    target: TrainingTarget
    rows: tuple[PlanRow, ...]
    left_out: tuple[str, ...] = ()
    scaling: tuple[PlanRow, ...] = ()
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[PlanRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def best(self) -> PlanRow | None:
        """The first row; None if nothing reaches the target."""
        return self.rows[0] if self.rows else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "target": self.target.text,
            "examples_per_second": self.target.rate,
            "examples": self.target.examples,
            "rows": [row.to_dict() for row in self.rows],
            "left_out": list(self.left_out),
            "scaling": [row.to_dict() for row in self.scaling],
            "notes": list(self.notes),
        }

    def summary(self) -> str:
        if not self.rows:
            return f"nothing reaches {self.target.text}"
        row = self.rows[0]
        took = "" if row.hours is None else f", {duration(row.hours * SECONDS_PER_HOUR)}"
        return (
            f"{self.target.text}: {row.cards} x {row.chip}, batch {row.times} each, {row.precision}: "
            f"{row.examples_per_second:,.0f} examples/s{took}"
        )

    def shown(self) -> list[str | Table]:
        out: list[str | Table] = [self.summary()]
        if self.rows:
            out.append(_table(self.rows))
        out += [f"left out: {why}" for why in self.left_out]
        out += self.notes
        if self.scaling:
            out.append(_scaling(self.scaling))
        return out


def _table(rows: tuple[PlanRow, ...]) -> Table:
    known = rows[0].hours is not None
    cells = []
    for row in rows:
        energy = [duration(row.hours * SECONDS_PER_HOUR), f"{row.kwh:,.1f}"] if row.hours is not None else []
        cells.append([
            f"{row.cards:,} x {row.chip}", row.times, row.precision, f"{row.examples_per_second:,.0f}",
            *(energy or [f"{row.kwh_per_million:.3g}"]), size(row.hbm_bytes),
            SHORT.get(row.limits.bound, row.limits.bound),
        ])  # fmt: skip
    energy = [">time", ">kWh"] if known else [">kWh/M"]
    return Table(["cards", ">batch", "as", ">examples/s", *energy, ">HBM", "bound by"], cells)


def _scaling(rows: tuple[PlanRow, ...]) -> Table:
    """Of the first row: what more cards give, and what of their time is lost to what."""
    one = rows[0].examples_per_second / rows[0].cards or 1.0
    cells = [
        (
            f"{row.cards:,}", row.times, f"{row.examples_per_second:,.0f}",
            f"{row.examples_per_second / row.cards / one:.0%}",
            *(f"{row.lost[name]:.1%}" for name in ("network", "waiting", "host")), f"{row.global_batch:,}",
        )
        for row in rows
    ]  # fmt: skip
    columns = [">cards", ">batch", ">examples/s", ">of linear", ">network", ">waiting", ">host", ">global batch"]
    title = f"{rows[0].chip}, {rows[0].precision}: scaling, and the shares of a step that network, waiting, host cost"
    return Table(columns, cells, title)
