"""`card_time_report()`: how long a card would have taken for this process's launches, and what the host did between.

No clock runs while the program does: native code counts launches per program, and this module multiplies the counts
with predicted times when it is asked.

    launches        predicted: launches of each program x its time on the card
    sums, waiting   predicted: sums of gradients between the processes of a job, and waiting for the slowest of them
    copies          predicted: bytes between host and card, over PCIe, at the same time as launches
    between         measured here: what this host did between launches, by name as far as it is known
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from habana_tf.card.clock import predicted, shown
from habana_tf.card.clock.counted import LaunchCounts, Launches, now, since_loading
from habana_tf.card.model.network import exposed_seconds, slowest, sum_seconds
from habana_tf.card.model.parameters import FITTED
from habana_tf.hardware import device_state, ranks
from habana_tf.hardware.boxes import box
from habana_tf.hardware.chips import Chip
from habana_tf.hardware.chips import chip as chip_named
from habana_tf.reports.report import Report
from habana_tf.reports.table import Table
from habana_tf.resolver.placements import placements

REST = "all else: Python, input pipelines, ops that the framework runs on the CPU by itself, waiting"
COPIES = "copies between host and card"
MIXED = "(programs that went long ago)"


@dataclass(frozen=True)
class LaunchedRecipe:
    """A recipe with the shapes it was launched for. launches: how many; host_seconds: they took on this host.

    each: predicted seconds of one launch on the card, None where `why` says why nothing is predicted. what: what it
    computes, by its ops. inputs: shapes of what is no variable. share: of the predicted time of all launches. bound:
    what most of its time goes to: MME, TPC, memory or launch.
    """

    number: int
    name: str
    what: str
    inputs: tuple[tuple[int, ...], ...]
    launches: int
    host_seconds: float
    each: float | None
    share: float
    bound: str
    why: str

    @property
    def seconds(self) -> float:
        """Predicted, of all launches; 0 where nothing is."""
        return (self.each or 0.0) * self.launches


@dataclass(frozen=True)
class Between:
    """What the host did between launches. count: how often, None where that is not known; seconds: as measured here."""

    name: str
    count: int | None
    seconds: float


_NUMBERS = (
    "chip cards seconds clock_seconds launches launch_seconds not_predicted sums waiting copies window between_seconds"
).split()


@dataclass(frozen=True, repr=False)
class CardTimeReport(Report):
    """The clock of a card. `print(report)` shows tables; a notebook shows them too. Times are seconds.

    chip, cards: whose time it is. recipes: those that were launched, the costliest first.
    sums: predicted, of gradients between cards: what this process summed with others; under Horovod, or in a single
    process, the part that takes longer than the backward pass.
    waiting: predicted, for the slowest card. copies: predicted, between host and card.
    window: measured, from the beginning to the end of the last launch. between: measured, what the host did in it
    outside launches. on_cpu: (op, how many nodes) that graphs of this process leave to the CPU.
    counted: what was counted in its time; read: the reading at its end, from which a later report may count on.
    """

    chip: str
    cards: int
    recipes: tuple[LaunchedRecipe, ...]
    sums: float
    waiting: float
    copies: float
    window: float
    between: tuple[Between, ...]
    on_cpu: tuple[tuple[str, int], ...]
    counted: LaunchCounts = field(repr=False)
    read: LaunchCounts | None = field(default=None, repr=False)

    @cached_property
    def launch_seconds(self) -> float:
        """Predicted, of all launches."""
        return sum(r.seconds for r in self.recipes)

    @property
    def seconds(self) -> float:
        """The card's time: launches, sums and waiting, or the copies where they take longer: they go on meanwhile. What
        the host does between launches is not in it, because a card goes on with what was launched before."""
        return max(self.launch_seconds + self.sums + self.waiting, self.copies)

    @property
    def launches(self) -> int:
        return sum(r.launches for r in self.recipes)

    @property
    def not_predicted(self) -> int:
        """Launches without a prediction, which count as no time."""
        return sum(r.launches for r in self.recipes if r.each is None)

    @property
    def between_seconds(self) -> float:
        """Measured, of the host between launches."""
        return sum(b.seconds for b in self.between)

    @property
    def clock_seconds(self) -> float:
        """The card's time plus all of the host's between launches: the time if the card waited for all of it."""
        return self.seconds + self.between_seconds

    def to_dict(self) -> dict[str, Any]:
        recipes = [
            {**asdict(r), "inputs": [list(shape) for shape in r.inputs], "seconds": r.seconds} for r in self.recipes
        ]
        return {
            **{name: getattr(self, name) for name in _NUMBERS},
            "between": [asdict(b) for b in self.between],
            "on_cpu": [{"op": op, "count": count} for op, count in self.on_cpu],
            "recipes": recipes,
        }

    def summary(self) -> str:
        return shown.summary(self)

    def shown(self) -> list[str | Table]:
        return shown.shown(self)


_lock = threading.Lock()
_from: LaunchCounts | None = None
"""What had been counted at the last `reset`."""


def card_time_report(
    chip: str | None = None, cards: int | None = None, since: CardTimeReport | LaunchCounts | None = None
) -> CardTimeReport:
    """What a card would have taken for the launches of this process, and what the host did between them.

    chip: "gaudi", "gaudi2" or "gaudi3", by default what HABANA_SIM_CHIP says. cards: of the job, by default as many as
    the launcher started processes; they change what sums and waiting take. since: an earlier report, to count from
    there; by default from the loading of HPU, or the last `reset`.

    Each program's prediction is computed when it is first asked for (some milliseconds; seconds for a large training
    step) and then known. Raises RuntimeError where HPU is not loaded, ValueError for an unknown chip or a number of
    cards below 1.
    """
    if device_state.loaded_at() is None:
        raise RuntimeError(
            "HPU is not loaded: call habana_tf.load_habana_module(), or for PyTorch import habana_frameworks.torch.core"
        )
    on = chip_named(chip)
    if cards is not None and cards < 1:
        raise ValueError(f"cards={cards} is not allowed: use at least one card")
    with _lock:
        before = _from
    if since is not None:
        before = since.read if isinstance(since, CardTimeReport) else since
    read = now()
    return replace(of(read.after(before or since_loading()), on, cards or ranks.here().size), read=read)


def reset() -> None:
    """Later reports count from now."""
    global _from
    counted = now()
    with _lock:
        _from = counted


def of(counted: LaunchCounts, chip: Chip, cards: int) -> CardTimeReport:
    """The report on a reading of the counters."""
    known = {number: predicted.launch(number, chip) for number in counted.programs}
    whole = sum((known[p.number].time.seconds or 0.0) * p.launches for p in counted.programs.values())
    recipes = sorted(
        (_recipe(p, known[p.number], whole) for p in counted.programs.values()),
        key=lambda r: (-r.seconds, -r.launches, r.number),
    )
    c = Counter(counted.counters)
    if c["sums"]:  # a sum of the average size takes the average time
        sums = c["sums"] * sum_seconds(chip, box(chip), c["sum_bytes"] // c["sums"], cards, FITTED.launch)
    else:  # not summed by us, or not at all: what the gradients of these launches would take
        alone = {
            k: exposed_seconds(chip, box(chip), e.time.gradients, cards, FITTED.launch)[1] for k, e in known.items()
        }
        sums = sum(alone[p.number] * p.launches for p in counted.programs.values())
    return CardTimeReport(
        chip.name,
        cards,
        tuple(recipes),
        sums,
        whole * FITTED.skew * slowest(cards),
        c["host_copy_bytes"] / chip.pcie_bandwidth + 2 * c["card_copy_bytes"] / chip.hbm_bandwidth,
        counted.window,
        tuple(_between(counted)),
        tuple(_on_cpu()),
        counted,
    )


def _recipe(p: Launches, known: predicted.ProgramPrediction, whole: float) -> LaunchedRecipe:
    time = known.time
    share = (time.seconds or 0.0) * p.launches / whole if whole else 0.0
    name = p.name or MIXED
    return LaunchedRecipe(
        p.number, name, known.what, known.inputs, p.launches, p.seconds, time.seconds, share, time.bound, time.why
    )


def _between(counted: LaunchCounts) -> list[Between]:
    """What is known of the time between launches by name, the longest first, and the rest of it."""
    c = Counter(counted.counters)
    named = [
        Between("recipes: compiling, or reading them from the cache", c["resolutions"], c["resolve_nanoseconds"] / 1e9),
        Between("the graph pass", c["optimize_calls"], c["optimize_nanoseconds"] / 1e9),
        Between(COPIES, c["host_copies"], c["host_copy_nanoseconds"] / 1e9),
        Between("copies on the card", c["card_copies"], c["card_copy_nanoseconds"] / 1e9),
        Between("sums between processes, waiting for them included", c["sums"], c["sum_nanoseconds"] / 1e9),
        *(Between(f"{op}, on the CPU", count, seconds) for op, (count, seconds) in counted.cpu_ops.items()),
    ]
    known = sorted((b for b in named if b.count), key=lambda b: -b.seconds)
    rest = counted.window - counted.launched_seconds - sum(b.seconds for b in known)
    return [*known, Between(REST, None, max(0.0, rest))]


def _on_cpu() -> list[tuple[str, int]]:
    """Ops that graphs leave to the CPU, the most frequent first."""
    return sorted(placements().in_graphs.items(), key=lambda item: (-item[1], item[0]))
