"""What the cards of a job would do, on a clock of their own: launches, copies over PCIe, sums with other ranks.

The events are those of each host, in the order in which they began, each as long as the card's model says. The host's
own time is left out: a card waits only for what it needs. All cards begin at zero.

    launches          one after the other; each waits for the copies to the card and the sums that precede it
    copies to it      over PCIe, during the launch before; a launch waits for them if they take longer
    copies from it    after the launch that precedes them
    sums              over the card's ports (`card.model.network`), in buffers as Horovod has them. A sum begins when a
                      result of its size is ready, even within a launch; the n-th sum begins when all ranks are ready

Horovod's sums run on the host here, and the record has only the copies for them. So in a process that has loaded
Horovod and is one of several, a tensor that leaves the card and comes back with the same size between two launches
counts as a sum, and its two copies do not count, because a card has its own network.

Copies in one direction follow each other, and so do sums. A step takes as long as its launches or its copies, whichever
are longer, plus the network after the last gradient. That is `predict`'s result without the wait for slower cards.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from habana_tf.card.model.network import fused, sum_seconds
from habana_tf.card.model.parameters import FITTED
from habana_tf.card.timeline.record import EventKind
from habana_tf.hardware.boxes import box
from habana_tf.hardware.chips import Chip, chip

IN, OUT, WIRE = "DMA to the card", "DMA from the card", "NIC"
ROWS = ("launches", "MME", "TPC", IN, OUT, WIRE, "bundles")
"""Rows of a card. Bundles that overlap have more rows of that name."""


@dataclass(frozen=True)
class Launched:
    """A launch. at: seconds from the beginning. program: its number, as in a part. card: what is predicted of it; None
    where its program was forgotten."""

    at: float
    program: str
    card: dict[str, Any] | None

    @property
    def seconds(self) -> float:
        return self.card["seconds"] if self.card else 0.0


@dataclass(frozen=True)
class TimedTransfer:
    """A copy, or a sum of some tensors. row: of `ROWS`. nbytes: of this card."""

    row: str
    at: float
    seconds: float
    name: str
    nbytes: int


@dataclass(frozen=True)
class _Meeting:
    """A rank is ready for a sum; it gets back the moment from which all are."""

    ready: float


_Steps = Generator[Launched | TimedTransfer | _Meeting, float, None]


@dataclass
class _CardClock:
    """began, done: of the last launch. needed: when the next may begin. free: of what does transfers. results: bytes
    and moments of what the last launch made."""

    on: Chip
    cards: int
    began: float = 0.0
    done: float = 0.0
    needed: float = 0.0
    free: dict[str, float] = field(default_factory=dict)
    results: list[tuple[int, float]] = field(default_factory=list)
    sums: list[tuple[float, int]] = field(default_factory=list)

    def launch(self, program: str, card: dict[str, Any] | None) -> Launched:
        made = Launched(max(self.done, self.needed), program, card)
        self.began, self.done, self.needed = made.at, made.at + made.seconds, 0.0
        found = card["results"] if card else ()
        self.results = [(each["nbytes"], made.at + each["at"]) for each in found]
        return made

    def copy(self, kind: EventKind, nbytes: int) -> TimedTransfer:
        row, earliest, name, seconds = {
            EventKind.TO_CARD: (IN, self.began, "copy to the card", nbytes / self.on.pcie_bandwidth),
            EventKind.FROM_CARD: (OUT, self.done, "copy from the card", nbytes / self.on.pcie_bandwidth),
            EventKind.ON_CARD: (OUT, self.done, "copy on the card", 2 * nbytes / self.on.hbm_bandwidth),
        }[kind]
        made = self._transfer(row, earliest, seconds, name, nbytes)
        if kind != EventKind.FROM_CARD:
            self.needed = max(self.needed, made.at + seconds)
        return made

    def sum(self, nbytes: int) -> None:
        """Notes one; `flush` makes transfers of those noted."""
        at = next((moment for size, moment in sorted(self.results, key=lambda r: r[1]) if size == nbytes), None)
        if at is not None:
            self.results.remove((nbytes, at))
        self.sums.append((self.done if at is None else at, nbytes))

    def flush(self) -> _Steps:
        """The sums since the last launch, in the order in which what they sum is there."""
        noted, self.sums = self.sums, []
        for at, nbytes, count in fused(noted):
            seconds = sum_seconds(self.on, box(self.on), nbytes, self.cards, FITTED.launch)
            name = f"sum of {count} tensor{'s' if count > 1 else ''} over {self.cards} cards"
            together = yield _Meeting(max(at, self.free.get(WIRE, 0.0)))
            made = self._transfer(WIRE, together, seconds, name, nbytes)
            self.needed = max(self.needed, made.at + seconds)
            yield made

    def _transfer(self, row: str, earliest: float, seconds: float, name: str, nbytes: int) -> TimedTransfer:
        made = TimedTransfer(row, max(self.free.get(row, 0.0), earliest), seconds, name, nbytes)
        self.free[row] = made.at + seconds
        return made


def clocks(parts: Sequence[dict[str, Any]]) -> list[list[Launched | TimedTransfer]]:
    """For each rank what its card does, in the order in which the host began it; sums come before the launch that
    follows them."""
    out: list[list[Launched | TimedTransfer]] = [[] for _ in parts]
    running = {k: _rank(part) for k, part in enumerate(parts)}
    told: dict[int, float | None] = dict.fromkeys(running)
    while running:
        ready: dict[int, float] = {}
        for k, steps in list(running.items()):
            try:
                step = next(steps) if (at := told[k]) is None else steps.send(at)
                while not isinstance(step, _Meeting):
                    out[k].append(step)
                    step = next(steps)
                ready[k] = step.ready
            except StopIteration:
                del running[k]
        told = dict.fromkeys(ready, max(ready.values(), default=0.0))
    return out


def _rank(part: dict[str, Any]) -> _Steps:
    clock = _CardClock(chip(part["chip"]), part["size"])
    kinds = {EventKind.LAUNCH, EventKind.TO_CARD, EventKind.FROM_CARD, EventKind.ON_CARD, EventKind.SUM}
    found = sorted((e[0], e[3], e[2]) for t in part["threads"] for e in t["events"] if e[3] in kinds)
    if part["horovod"] and clock.cards > 1:
        found = _with_sums(found)
    for _, kind, subject in found:
        if kind == EventKind.LAUNCH:
            yield from clock.flush()
            program = part["programs"].get(str(subject))
            yield clock.launch(str(subject), program and program["card"])
        elif kind != EventKind.SUM:
            yield clock.copy(EventKind(kind), subject)
        elif clock.cards > 1:
            clock.sum(subject)
    yield from clock.flush()


def _with_sums(found: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """(start, kind, subject) of events, with a sum in the place of each pair of copies that is one."""
    out = list(found)
    left: dict[int, list[int]] = {}
    for k, (start, kind, subject) in enumerate(found):
        if kind == EventKind.LAUNCH:
            left = {}
        elif kind == EventKind.FROM_CARD:
            left.setdefault(subject, []).append(k)
        elif kind == EventKind.TO_CARD and left.get(subject):
            out[left[subject].pop(0)] = start, EventKind.SUM, subject
            out[k] = start, -1, subject
    return [event for event in out if event[1] >= 0]


def bundle_rows(bundles: Sequence[dict[str, Any]]) -> list[int]:
    """For each bundle of a launch the first row where it overlaps no other."""
    until: list[float] = []
    rows = [0] * len(bundles)
    for k in sorted(range(len(bundles)), key=lambda k: (bundles[k]["start"], k)):
        start = bundles[k]["start"]
        rows[k] = next((row for row, end in enumerate(until) if end <= start), len(until))
        until[rows[k] : rows[k] + 1] = [start + bundles[k]["seconds"]]
    return rows


def unpredicted(part: dict[str, Any]) -> dict[str, str]:
    """The programs of a part of which nothing is predicted: names, with the reason."""
    forgotten = "it was resolved so long ago that nothing is known of it"
    return {
        program["name"]: card["why"] if card else forgotten
        for program in part["programs"].values()
        for card in [program["card"]]
        if card is None or card["why"]
    }
