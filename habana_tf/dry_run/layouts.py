"""`plan_layouts()`: how the training of a language model is laid on cards so that it fits and is fast.

A layout is predicted from the recording of its own training step (`torch.dry_run.language_step`), with three and four
layers of the decoder in the place of all, which are alike: seconds and bytes are lines through both, and so they are
over the micro-batches of a step. The best is recorded once more as it is.

What is not recorded: weights with gradients and state that are more than the card has; more stages, once fewer fit;
recomputation, parts of the sequence and more of ZeRO, where less fits, which is faster; "some" recomputation where
cards may share the sequence, which saves more; more sequences at once with what did not fit fewer, or once they were no
faster than half of them; and another precision but for the best layouts of the first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from habana_tf.card.model.parameters import LATEST
from habana_tf.card.prediction.layouts import Layout, LayoutPlan, LayoutRow
from habana_tf.dry_run.ranks import Jobs
from habana_tf.hardware.chips import chip as chip_named
from habana_tf.reports.units import size

if TYPE_CHECKING:
    from habana_tf.torch.dry_run.rank import Rank

_log = logging.getLogger("habana_tf")
_STATE = {"bf16": (2, 2, 4), "mixed": (4, 4, 8), "fp8": (2, 2, 4)}
"""Bytes of a weight, of its gradient and of AdamW's state, by precision."""
_FASTER = 1.01
"""A micro-batch twice as large has to be so much faster for a larger one to be looked at."""
_BEST = 2
"""Layouts of the first precision that are looked at in others."""

_Point = tuple[float, float, float]
"""Seconds of a step, those in which a card waits, bytes."""


def plan_layouts(
    model: Any, cards: int, length: int = 4096, global_batch: int | None = None, chip: str | None = None,
    box: str | None = None, release: str = LATEST, precisions: Sequence[str] = ("bf16", "mixed"),
) -> LayoutPlan:  # fmt: skip
    """Ways to train a causal language model of `transformers` with AdamW on so many cards: of each number of cards that
    share its layers the fastest that fits.

    model: it, or its configuration; it needs no weights. length: tokens of a sequence. global_batch: sequences between
    two updates, 8 a card by default. Raises ValueError for numbers and precisions that cannot be.
    """
    config = getattr(model, "config", model)
    known = chip_named(chip)
    batch = global_batch or 8 * cards
    unknown = set(precisions) - set(_STATE)
    if cards < 1 or length < 1 or batch < 1 or unknown or not precisions:
        raise ValueError(
            f"cards={cards}, length={length}, global_batch={batch}, precisions={tuple(precisions)}: numbers from 1 on, "
            f"and {' or '.join(_STATE)}"
        )
    if "fp8" in precisions and known.float8_e4m3_largest is None:
        raise ValueError(f"{known.product} has no 8-bit floats: plan for another chip, or without precision fp8")
    search = _Search(config, Jobs(known.name, box, release), cards, length, batch)
    first = [row for tp, pp in search.ways(precisions[0]) if (row := search.fastest(tp, pp, precisions[0])) is not None]
    rows = sorted(first, key=lambda row: row.seconds)
    for precision in precisions[1:]:
        pairs = [(row.layout.tp, row.layout.pp) for row in rows[:_BEST]]
        pairs = pairs or list(search.ways(precision))
        rows += [row for tp, pp in pairs if (row := search.fastest(tp, pp, precision)) is not None]
    rows.sort(key=lambda row: row.seconds)
    if rows and not rows[0].whole:
        _log.info("plan: %s, with all its layers", rows[0].layout)
        first_of_all = search._row(rows[0].layout, whole=True)
        rows[:1] = [first_of_all] if first_of_all is not None else []
    return LayoutPlan(known, tuple(rows), tuple(search.left_out), search.tried)


@dataclass(frozen=True)
class Recorded:
    """A layout's training step, with few layers and micro-batches. layers: of a stage; whole: how many it has; counts:
    micro-batches; ranks: of each number of layers, with a step of each count."""

    at: Layout
    whole: int
    layers: tuple[int, ...]
    counts: tuple[int, ...]
    ranks: tuple[list[Rank], ...]

    def points(self, jobs: Jobs) -> list[_Point]:
        """Of each count, with all layers."""
        made = [[self._point(jobs, found, n) for found in self.ranks] for n in range(1, 1 + len(self.counts))]
        return [_at(self.whole, list(zip(self.layers, points, strict=True))) for points in made]

    def step(self, points: Sequence[_Point]) -> _Point:
        """All micro-batches, by those points."""
        return _at(self.at.micro_batches, list(zip(self.counts, points, strict=True)))

    def _point(self, jobs: Jobs, found: Sequence[Rank], number: int) -> _Point:
        step = jobs.predicted(found, number)
        return step.seconds, max(rank.exposed for rank in step.ranks), float(step.memory)


@dataclass
class _Search:
    config: Any
    jobs: Jobs
    cards: int
    length: int
    batch: int
    left_out: list[str] = field(default_factory=list)
    tried: int = 0
    fitted: set[int] = field(default_factory=set)
    """Numbers of stages of which something fits."""

    def __post_init__(self) -> None:
        from habana_tf.torch.dry_run.generation import kinds_of_layers
        from habana_tf.torch.dry_run.language_step import weights

        self.layers = self.config.get_text_config().num_hidden_layers
        self.alike = len(set(kinds_of_layers(self.config))) == 1
        self.layer, self.rest = weights(self.config)
        self.room = self.jobs.chip.hbm_bytes - self.jobs.chip.idle_memory_bytes

    def ways(self, precision: str) -> Iterator[tuple[int, int]]:
        """(tp, pp) that the model allows; more stages only where fewer do not fit."""
        from habana_tf.torch.dry_run.language_step import shares

        for pp in (n for n in range(1, self.cards + 1) if self.cards % n == 0 and self.layers % n == 0):
            for tp in shares(self.config):
                dp, left = divmod(self.cards, tp * pp)
                if not left and self.batch % dp == 0 and self.batch // dp >= pp:
                    yield tp, pp
            if self.fitted:
                return

    def fastest(self, tp: int, pp: int, precision: str) -> LayoutRow | None:
        """The fastest with so many cards and stages that fits."""
        dp = self.cards // (tp * pp)
        share, micro = self.batch // dp, 1
        ways: dict[str, tuple[bool, ...]] = {"none": (False,), "some": (False,), "all": (False,)}
        if tp > 1 and self.length % tp == 0:
            ways = {"none": (False, True), "all": (True,)}
        options = [
            (again, zero, sequence)
            for again, given in ways.items()
            for zero in ((1, 2, 3) if dp > 1 else (0,))
            for sequence in given
        ]
        best: LayoutRow | None = None
        while share % micro == 0 and share // micro >= pp and options:
            row = None
            while options and row is None:
                again, zero, sequence = options[0]
                row = self._fitting(Layout(tp, pp, dp, zero, micro, share // micro, again, precision, sequence))
                if row is None:
                    options.pop(0)  # nor does it with more sequences
            if best is not None and (row is None or best.seconds < row.seconds * _FASTER):
                break
            if best is None:  # computing twice costs more than larger products give
                options = [each for each in options if row is not None and each[0] == row.layout.recompute]
            best, micro = row, 2 * micro
        if best is None:
            self.left_out.append(f"tp {tp}, pp {pp}, {precision}: not even one sequence at once fits")
        else:
            self.fitted.add(pp)
        return best

    def _fitting(self, at: Layout) -> LayoutRow | None:
        """What a layout takes; None where it does not fit."""
        if self._kept(at) > self.room:
            return None
        self.tried += 1
        row = self._row(at)
        said = "does not fit" if row is None else f"{row.tokens_per_second:,.0f} tokens/s, {size(row.memory)}"
        _log.info("plan: %s: %s", at, said)
        return row

    def _kept(self, at: Layout) -> float:
        """Bytes of weights, gradients and state at least."""
        weight, gradient, state = _STATE[at.precision]
        count = (self.layer * self.layers / at.pp + self.rest / max(2, at.pp)) / at.tp
        summed = at.zero == 1 and at.micro_batches > 1  # over the micro-batches, whole
        held = weight / at.dp if at.zero == 3 else weight + (at.precision == "fp8")  # in both forms
        return count * (held + gradient / (1 if summed else at.dp) + state / at.dp)

    def _row(self, at: Layout, whole: bool = False) -> LayoutRow | None:
        """By lines over layers and micro-batches. whole: with all layers."""
        of_stage = self.layers // at.pp
        layers = (of_stage,) if whole or not self.alike or of_stage <= 4 else (3, 4)
        found = recorded(self.jobs, self.config, at, self.length, layers)
        points = found.points(self.jobs)
        if any(point[2] > self.room for point in points):
            return None
        seconds, waits, nbytes = found.step(points)
        memory = max(nbytes, *(point[2] for point in points)) + self.jobs.chip.idle_memory_bytes
        return LayoutRow(at, self.length, seconds, waits, int(memory), layers == (of_stage,))


def recorded(
    jobs: Jobs, config: Any, at: Layout, length: int, layers: Sequence[int], counts: Sequence[int] = (),
    made: Callable[[Any, Any], Any] | None = None,
) -> Recorded:  # fmt: skip
    """Records steps of so many micro-batches with each number of layers. counts: by default as many as a line needs;
    made: see `language_step.program`."""
    from habana_tf.torch.dry_run.language_step import program

    low = max(2, at.pp + (at.pp > 1))  # from there on the first stage keeps no more of them
    high = low + at.pp  # stages take turns: that many micro-batches are one round of all
    counts = tuple(counts) or ((low, high) if at.micro_batches > high else (at.micro_batches,))
    ranks = [stage * at.dp * at.tp for stage in range(at.pp)]
    programs = [program(config, at, length, n, (counts[0], *counts), made) for n in layers]
    found = tuple(jobs.recorded(each, at.cards, ranks, 1 + len(counts)) for each in programs)
    whole = config.get_text_config().num_hidden_layers // at.pp
    return Recorded(at, whole, tuple(layers), counts, found)


def _at(where: float, points: Sequence[tuple[float, _Point]]) -> _Point:
    """On the line through one or two points."""
    (x, first), (y, second) = points[0], points[-1]
    if x == y:
        return first
    a, b, c = (p + (q - p) * (where - x) / (y - x) for p, q in zip(first, second, strict=True))
    return a, b, c
