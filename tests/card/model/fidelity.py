"""Fits the parameters of the card's model to published rows, and writes the tables and the plot of `docs/fidelity.md`.

python -m tests.card.model.fidelity fit         the best parameters, and each group by parameters fitted without it
python -m tests.card.model.fidelity docs        with the parameters as they are: tables and plot into docs/
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np

import habana_tf
from habana_tf.card.model.cluster_time import UnitTime, cluster_time
from habana_tf.card.model.lowered import Lowered
from habana_tf.card.model.parameters import FITTED, Parameters
from habana_tf.card.model.roles import roles
from habana_tf.card.model.step_time import step_time, updates
from habana_tf.card.prediction.prediction import Prediction
from habana_tf.hardware.boxes import box
from habana_tf.hardware.chips import chip
from habana_tf.tensorflow.dry_run.weightless import without_values
from tests.card.model.fidelity_page import write
from tests.card.model.published import FITTED_ROWS, ROWS, Row
from tests.card.model.transformers import ALL

LOWEST = replace(FITTED, hidden=0.5, tpc_rate=0.2, early=0.0, launch=1e-6, skew=0.0)
HIGHEST = replace(FITTED, hidden=1.0, tpc_rate=1.0, early=1.0, launch=15e-6, skew=0.06)
"""What a card may have, see docs/fidelity.md: a fit must not go where no card is."""
VARIED = ("hidden", "tpc_rate", "early", "launch", "skew")
"""Those of all kinds of networks; `language_fidelity` has the others."""
HALVINGS = 7


@functools.cache
def told(network: str, batch: int) -> Prediction:
    """What `habana_tf.predict` tells a user for one Gaudi: the launches in it do not depend on the card."""
    with without_values():
        model = ALL[network].build()
    return habana_tf.predict(model, *ALL[network].inputs(batch), chip="gaudi")


def launches(network: str, batch: int) -> tuple[Lowered, ...]:
    """What a training step of a network launches."""
    return told(network, batch).launched


@dataclass(frozen=True)
class Work:
    """Of units: seconds of MME, of TPC at one instruction per cycle, of HBM, and how many units."""

    matrix: float
    vector: float
    memory: float
    units: int

    @staticmethod
    def of(units: Sequence[UnitTime]) -> Work:
        return Work(
            sum(u.busy for u in units if u.unit.product), sum(u.busy for u in units if not u.unit.product),
            sum(u.memory for u in units), len(units),
        )  # fmt: skip

    def seconds(self, p: Parameters) -> float:
        """As `cluster_time.together` has them."""
        _, second, longest = sorted((self.matrix, self.vector / p.tpc_rate, self.memory))
        return longest + (1 - p.hidden) * second + p.launch * self.units


@dataclass(frozen=True)
class Measures:
    """All that the step of a row is made of but the parameters: (launch, its update) in turn; seconds to sum gradients
    of micro-batches on the card, and seconds that the network works alone."""

    launches: tuple[tuple[Work, Work], ...]
    summed: float
    network_alone: float

    def seconds(self, row: Row, parameters: Parameters) -> float:
        """As `card.model.step_time` has them; the network's part hardly depends on the parameters."""
        p = parameters.at(row.release)
        more = row.accumulate - 1
        launched = sum((more + 1) * whole.seconds(p) - more * once.seconds(p) for whole, once in self.launches)
        waiting = p.skew * math.sqrt(2 * math.log(row.cards))
        return (launched + self.summed) * (1 + waiting) + self.network_alone


PEAK = replace(FITTED, tpc_rate=1.0, early=0.0)


@functools.cache
def measures(network: str, batch: int, name: str, cards: int, accumulate: int, machine: str) -> Measures:
    known, launched = chip(name), launches(network, batch)
    parts = []
    for lowered in launched:
        time = cluster_time(known, lowered.program, frozenset(lowered.made.values()), PEAK)
        once = updates(lowered, time, roles(lowered, [u.unit for u in time.units]))
        parts.append((Work.of(time.units), Work.of(once)))
    step = step_time(known, launched, cards, 0, box(known, machine or None), FITTED, accumulate)
    summed = 3 * accumulate * step.gradient_bytes / known.hbm_bandwidth if accumulate > 1 else 0.0
    return Measures(tuple(parts), summed, step.network_alone)


def error(row: Row, parameters: Parameters = FITTED) -> float:
    """How far the prediction is from the published figure, as a share of it."""
    found = measures(row.network, row.batch, row.chip, row.cards, row.accumulate, row.box)
    return row.batch * row.accumulate * row.cards / found.seconds(row, parameters) / row.figure - 1


def predicted(row: Row) -> Prediction:
    """What `habana_tf.predict` tells a user about a row."""
    with without_values():
        model = ALL[row.network].build()
    return habana_tf.predict(
        model, *ALL[row.network].inputs(row.batch), chip=row.chip, cards=row.cards, box=row.box or None,
        release=row.release, accumulate=row.accumulate,
    )  # fmt: skip


def fit(rows: Sequence[Row], lowest: Parameters = LOWEST, highest: Parameters = HIGHEST) -> Parameters:
    """The parameters with the least squares of logarithmic errors, between the bounds: from the middle, by steps along
    several of them at once, because one often makes up for another, that get shorter."""
    low, high = np.array(astuple(lowest)), np.array(astuple(highest))

    def loss(point: np.ndarray) -> float:
        return sum(math.log1p(error(row, Parameters(*point))) ** 2 for row in rows)

    best, step = (low + high) / 2, (high - low) / 4
    least = loss(best)
    ways = [np.array(way) for way in itertools.product(*((-1, 0, 1) if s else (0,) for s in step)) if any(way)]
    for _ in range(HALVINGS):
        while True:
            trials = [np.clip(best + way * step, low, high) for way in ways]
            losses = [loss(trial) for trial in trials]
            if min(losses) >= least - 1e-9:
                break
            least = min(losses)
            best = trials[losses.index(least)]
        step = step / 2
    return Parameters(*map(float, best))


@functools.cache
def without(group: str) -> Parameters:
    """Fitted to the rows of all other groups."""
    return fit([row for row in FITTED_ROWS if row.group != group])


def left_out(row: Row) -> float:
    """The error of a prediction that knows no row of this one's group."""
    return error(row, without(row.group) if row in FITTED_ROWS else FITTED)


def mean(errors: Iterable[float]) -> float:
    return float(np.mean(np.abs(list(errors))))


def published_table() -> list[str]:
    """Published, predicted, and predicted by parameters that were fitted without the group."""
    lines = ["| network | chip | cards | batch | release | published | predicted | error | group left out |",
             "|---|---|--:|--:|---|--:|--:|--:|--:|"]  # fmt: skip
    for row in ROWS:
        batch = f"{row.accumulate} x {row.batch}" if row.accumulate > 1 else str(row.batch)
        found = error(row)
        lines.append(
            f"| {row.network} | {row.box or row.chip} | {row.cards} | {batch} | {row.release} {row.framework} | "
            f"{row.figure:,.0f} | {row.figure * (1 + found):,.0f} | {found:+.1%} | {left_out(row):+.1%} |"
        )
    return lines


def groups_table() -> list[str]:
    """Errors by group, chip, framework and release."""
    lines = ["| rows | number | mean error | worst | mean, group left out | worst |", "|---|--:|--:|--:|--:|--:|"]
    kinds: list[Callable[[Row], str]] = [
        lambda row: "all that the model stands for",
        lambda row: row.group,
        lambda row: row.chip,
        lambda row: row.framework,
        lambda row: "one card" if row.cards == 1 else "several cards",
        lambda row: "release before 1.10" if int(row.release.split(".")[1]) < 10 else "release 1.10 and later",
    ]
    chosen = [(name, [row for row in FITTED_ROWS if kind(row) == name])
              for kind in kinds for name in dict.fromkeys(map(kind, FITTED_ROWS))]  # fmt: skip
    chosen += [(f"{name} (not stood for)", [row for row in ROWS if row.group == name])
               for name in dict.fromkeys(row.group for row in ROWS if row not in FITTED_ROWS)]  # fmt: skip
    for name, rows in chosen:
        errors, others = [error(row) for row in rows], [left_out(row) for row in rows]
        worst = max(errors, key=abs), max(others, key=abs)
        lines.append(
            f"| {name} | {len(rows)} | {mean(errors):.1%} | {worst[0]:+.1%} | {mean(others):.1%} | {worst[1]:+.1%} |"
        )
    return lines


def sensitivity_table() -> list[str]:
    """What a quarter more of a parameter does to the predictions of each group, on average."""
    groups = list(dict.fromkeys(row.group for row in FITTED_ROWS))
    lines = ["| parameter | value | " + " | ".join(groups) + " |", "|---|--:|" + "--:|" * len(groups)]
    for name in VARIED:
        value = getattr(FITTED, name)
        more = replace(FITTED, **{name: min(1.0, 1.25 * value) if name == "hidden" else 1.25 * value})
        shown = []
        for group in groups:
            rows = [row for row in FITTED_ROWS if row.group == group]
            shown.append(float(np.mean([(1 + error(row, more)) / (1 + error(row)) - 1 for row in rows])))
        lines.append(f"| {name} | {value:g} | " + " | ".join(f"{change:+.1%}" for change in shown) + " |")
    return lines


def main() -> None:
    if sys.argv[1:] == ["fit"]:
        print(fit(FITTED_ROWS), *groups_table(), *published_table(), sep="\n")
    elif sys.argv[1:] == ["docs"]:
        write(published_table(), groups_table(), sensitivity_table(), [(row, error(row)) for row in ROWS])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
