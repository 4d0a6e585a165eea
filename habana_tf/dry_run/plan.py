"""`plan()`: which cards a training job needs to reach a target, before any are rented.

A model is traced and lowered once for each batch and precision; chips, numbers of cards and accumulation are computed
from that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, overload

from habana_tf.card.model.growth import largest
from habana_tf.card.model.host import Host
from habana_tf.card.model.parameters import FITTED, LATEST, Parameters, check_release
from habana_tf.card.model.step_time import StepTime, step_time
from habana_tf.card.prediction.foreseen import Foreseen
from habana_tf.card.prediction.layouts import LayoutPlan
from habana_tf.card.prediction.limits import limits, pipelines
from habana_tf.card.prediction.plan import WATTS, Plan, PlanRow
from habana_tf.card.prediction.target import TrainingTarget
from habana_tf.card.prediction.target import target as parsed
from habana_tf.dry_run.layouts import plan_layouts
from habana_tf.dry_run.predict import foreseen, moved
from habana_tf.hardware.boxes import box as box_named
from habana_tf.hardware.chips import Chip
from habana_tf.hardware.chips import chip as chip_named
from habana_tf.hardware.chips import chips as all_chips
from habana_tf.reports.units import size
from habana_tf.tensorflow.dry_run.input_rate import fed_by
from habana_tf.tensorflow.dry_run.traced import as_specs, batch_of, examples_with, with_batch

MOST_CARDS = 4096
COUNTS = (1, 2, 4, *range(8, 64, 8), *range(64, 512, 64), *range(512, MOST_CARDS + 1, 512))
"""Numbers of cards that are looked at: of one box those that jobs may have, else whole boxes."""
SCALING = tuple(2**k for k in range(13))
"""Numbers of cards that the scaling table has."""


@overload
def plan(
    fn_or_model: Any, *inputs: Any, target: str, dataset_size: int | None = None, epochs: float = 1,
    chips: Iterable[str] | None = None, batches: Iterable[int] = (), global_batch: int | None = None,
    precisions: Iterable[str] = (), optimizer: Any = None, host: Host | None = None, dataset: Any = None,
    most_cards: int = MOST_CARDS, host_watts: float = 0.0, release: str = LATEST, resident: Any = None,
    box: str | None = None, cards: None = None,
) -> Plan: ...  # fmt: skip


@overload
def plan(
    fn_or_model: Any, *, cards: int, length: int = 4096, global_batch: int | None = None, chip: str | None = None,
    precisions: Iterable[str] = (), release: str = LATEST, box: str | None = None,
) -> LayoutPlan: ...  # fmt: skip


def plan(
    fn_or_model: Any, *inputs: Any, target: str | None = None, dataset_size: int | None = None, epochs: float = 1,
    chips: Iterable[str] | None = None, batches: Iterable[int] = (), global_batch: int | None = None,
    precisions: Iterable[str] = (), optimizer: Any = None, host: Host | None = None, dataset: Any = None,
    most_cards: int = MOST_CARDS, host_watts: float = 0.0, release: str = LATEST, resident: Any = None,
    box: str | None = None, cards: int | None = None, length: int = 4096, chip: str | None = None,
) -> Plan | LayoutPlan:  # fmt: skip
    """The cards that a training job needs: for each chip, batch and precision the fewest that reach the target, with
    examples per second, hours, energy, memory and what bounds them; and how the first of these scales to 4,096 cards.

    fn_or_model, inputs, optimizer, host, dataset, release, resident, box: as for `predict`; the inputs are those of
    one card. target: "10000 examples/s", or "8 hours" (min, days) for `epochs` times `dataset_size` examples. chips:
    all three by default. batches: examples per card, by default those of the inputs. global_batch: examples between two
    updates, if these are to be so many: cards that cannot hold their share accumulate gradients. Without it each batch
    has its update, and
    more cards train with larger global batches. most_cards: how many there are at most.
    host_watts: of a host, whose energy counts only then; the cards' is that of their published power limit.

    With `cards`, fn_or_model is a causal language model of `transformers`, or its configuration, and the answer is how
    its training is laid on so many cards: see `dry_run.layouts.plan_layouts`.

    Raises ValueError for a target or number that cannot be, and what `predict` raises.
    """
    if cards is not None:
        if inputs or target is not None:
            raise ValueError("plan(model, cards=...): a language model has no other inputs, and no target")
        given = tuple(precisions) or ("bf16", "mixed")
        return plan_layouts(fn_or_model, cards, length, global_batch, chip, box, release, given)
    if target is None:
        raise ValueError("plan(model, ..., target=...): say what to reach, or for a language model how many cards=...")
    wanted = parsed(target, dataset_size, epochs)
    specs = as_specs(inputs)
    named = [chip_named(name) for name in chips] if chips is not None else list(all_chips())
    sizes = tuple(batches) or (batch_of(specs),)
    _check(sizes, global_batch, most_cards, host_watts)
    fed, parameters = fed_by(host, dataset, specs), FITTED.at(check_release(release))
    rows: list[tuple[PlanRow, _Job]] = []
    left_out = []
    for asked, precision in _precisions(fn_or_model, tuple(precisions) or ("bf16", "fp32")):
        for batch in sizes:
            examples = examples_with(inputs, specs, batch)
            _, found = foreseen(fn_or_model, with_batch(specs, batch), asked, optimizer, examples)
            for each in named:
                job = _Job(each, found, batch, precision, fed, wanted, host_watts, parameters, resident, box)
                row = _fewest(job, global_batch, most_cards)
                if isinstance(row, str):
                    left_out.append(f"{each.name}, batch {batch}, {precision}: {row}")
                else:
                    rows.append((row, job))
    rows.sort(key=lambda pair: (pair[0].cards, pair[0].kwh_per_million))
    found_rows = tuple(row for row, _ in rows)
    scaling = _scaling(rows, global_batch, most_cards)
    return Plan(wanted, found_rows, tuple(left_out), scaling, _notes(found_rows, fed, global_batch, host_watts))


def _scaling(
    rows: list[tuple[PlanRow, _Job]], global_batch: int | None, most_cards: int
) -> tuple[PlanRow, ...]:  # fmt: skip
    """The first row on other numbers of cards: with its batch each, or where the global batch is fixed with that of the
    batches of the same chip and precision that gives most."""
    if not rows:
        return ()
    first, job = rows[0]
    counts = [cards for cards in SCALING if cards <= most_cards]
    if global_batch is None:
        return tuple(job.on(cards, 1) for cards in counts)
    alike = [other for row, other in rows if (row.chip, row.precision) == (first.chip, first.precision)]
    out = []
    for cards in counts:
        ways = [other.on(cards, global_batch // (cards * other.batch)) for other in alike
                if not global_batch % (cards * other.batch)]  # fmt: skip
        out += sorted(ways, key=lambda row: -row.examples_per_second)[:1]
    return tuple(out)


def _precisions(fn_or_model: Any, precisions: Iterable[str]) -> list[tuple[str, str]]:
    """(what is asked of `foreseen`, what rows call it): a policy of mixed precision decides, whatever is asked for."""
    policy = getattr(getattr(fn_or_model, "dtype_policy", None), "name", "float32")
    if policy.startswith("mixed_"):
        return [("bf16", policy)]
    return [(precision, precision) for precision in precisions]


def _check(batches: tuple[int, ...], global_batch: int | None, most_cards: int, host_watts: float) -> None:
    wrong = min(batches) < 1 or not 1 <= most_cards <= MOST_CARDS or host_watts < 0
    if wrong or (global_batch is not None and global_batch < 1):
        raise ValueError(
            f"batches={batches}, global_batch={global_batch}, most_cards={most_cards}, host_watts={host_watts}: give "
            f"examples from 1 on, 1 to {MOST_CARDS:,} cards, and watts from 0 on"
        )


@dataclass(frozen=True)
class _Job:
    """A lowered step on a chip, on one card or more."""

    chip: Chip
    found: Foreseen
    batch: int
    precision: str
    host: Host
    target: TrainingTarget
    host_watts: float
    parameters: Parameters
    resident: Any
    box: str | None

    def _step(self, cards: int, times: int) -> StepTime:
        copied = sum(t.nbytes for t in moved(self.found, self.resident))
        return step_time(
            self.chip, self.found.launches, cards, copied, box_named(self.chip, self.box), self.parameters, times
        )

    @cached_property
    def one(self) -> StepTime:
        return self._step(1, 1)

    @property
    def most_per_card(self) -> float:
        """Examples per second that no card exceeds: without update, network, waiting and host."""
        seconds = self.one.launches - self.one.update_seconds
        return self.batch / seconds if seconds > 0 else float("inf")

    def on(self, cards: int, times: int) -> PlanRow:
        """The job on so many cards, with the gradients of so many batches before each update."""
        step = self._step(cards, times) if cards > 1 or times > 1 else self.one
        host = replace(self.host, python_seconds=times * self.host.python_seconds)
        watts = cards * WATTS[self.chip.name] + self.host_watts * -(-cards // step.box.cards)
        found = limits(step, self.batch * times, host)
        return PlanRow(self.batch, times, self.precision, step, found, self.target, watts)


def _fewest(job: _Job, global_batch: int | None, most_cards: int) -> PlanRow | str:
    """The job on the fewest cards that reach its target, or why there are none."""
    ways = list(_ways(job.batch, global_batch, most_cards))
    if not ways:
        return f"a global batch of {global_batch:,} is no multiple of it, on up to {most_cards:,} cards"
    best, refused = None, None
    for cards, times in ways:
        if cards * job.most_per_card < job.target.rate and cards < ways[-1][0]:
            continue
        row = job.on(cards, times)
        if row.hbm_bytes > job.chip.hbm_bytes:
            refused = row
        elif row.examples_per_second >= job.target.rate:
            return row
        elif best is None or row.examples_per_second > best.examples_per_second:
            best = row
    if best is None and refused is not None:
        return _too_large(job, refused)
    assert best is not None
    return f"{best.cards:,} cards give {best.examples_per_second:,.0f} examples/s at most, bound by {best.limits.bound}"


def _ways(batch: int, global_batch: int | None, most_cards: int) -> Iterator[tuple[int, int]]:
    """(cards, batches before an update), fewest cards first."""
    for cards in COUNTS:
        if cards > most_cards:
            return
        if global_batch is None:
            yield cards, 1
        elif global_batch % (cards * batch) == 0:
            yield cards, global_batch // (cards * batch)


def _too_large(job: _Job, row: PlanRow) -> str:
    kept = job.one.gradient_bytes if row.accumulate > 1 else 0
    room = job.chip.hbm_bytes - job.chip.idle_memory_bytes - kept
    most = largest(job.one.growth, job.batch, room)
    fits = f"a batch of {most:,} at most fits" if most else "not even one example fits"
    return f"needs {size(row.hbm_bytes)} of {size(job.chip.hbm_bytes)}: {fits}"


def _notes(
    rows: tuple[PlanRow, ...], fed: Host, global_batch: int | None, host_watts: float
) -> tuple[str, ...]:  # fmt: skip
    """What the figures stand for, and what would lift the input if a row waits for it."""
    limit = ", ".join(f"{name} {watts}" for name, watts in WATTS.items())
    hosts = f"hosts take {host_watts:g} W each" if host_watts else "hosts and idle cards do not count (host_watts=)"
    out = [f"energy: the cards' published power limit (W: {limit}) all the time, more than they draw; {hosts}"]
    if fed.input_rate is None:
        out.append("input: taken to keep up; say what a host's gives (host=habana_tf.Host(input_rate=...), dataset=)")
    waits = next((row for row in rows if row.limits.input_bound), None)
    if waits is not None:
        after = f"{waits.limits.fed_examples_per_second:,.0f} examples/s on {waits.cards:,} x {waits.chip}"
        out.append(f"would help the input: {pipelines(waits.limits, fed)}; then {after} ({waits.precision})")
    if global_batch is None:
        out.append("batch: more cards train with a larger global batch, which may need more epochs (global_batch=)")
    return tuple(out)
