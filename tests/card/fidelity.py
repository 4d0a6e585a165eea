"""Fits the parameters of the card's model to published rows, and writes the tables and the plot of `docs/fidelity.md`.

python -m tests.card.fidelity fit         the best parameters, leave-one-out, sensitivity
python -m tests.card.fidelity docs        with the parameters as they are: tables and plot into docs/
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from habana_tf.card.cluster_time import work
from habana_tf.card.lowered import Lowered
from habana_tf.card.parameters import FITTED, Parameters
from habana_tf.card.step_time import step_time
from habana_tf.hardware.chips import chip
from habana_tf.prediction.predict import foreseen
from habana_tf.prediction.traced import as_specs
from habana_tf.prediction.weightless import without_values
from tests.card.networks import NETWORKS
from tests.card.published import ROWS, Row

DOCS = Path(__file__).parents[2] / "docs"

FIRST_STEPS = Parameters(hidden=0.1, tpc_rate=0.1, launch=1e-6, skew=0.004)
"""How far the search goes at first, per parameter."""
LOWEST, HIGHEST = Parameters(0.0, 0.1, 0.0, 0.0), Parameters(1.0, 1.0, 2e-5, 0.05)
HALVINGS = 6


@functools.cache
def launches(network: str, batch: int) -> tuple[Lowered, ...]:
    """What a training step of a network launches."""
    with without_values():
        model = NETWORKS[network].build()
    _, found = foreseen(model, as_specs(NETWORKS[network].inputs(batch)), "bf16", None)
    return tuple(found.launches)


@dataclass(frozen=True)
class Measures:
    """All that the step of a row is made of but the parameters. Arrays hold one number per unit."""

    product: Any
    engine: Any
    memory: Any
    network_alone: float

    def seconds(self, parameters: Parameters, cards: int) -> float:
        """As `card.step_time` has them; the network's part hardly depends on the parameters."""
        busy = np.where(self.product, self.engine, self.engine / parameters.tpc_rate)
        each = np.maximum(busy, self.memory) + parameters.launch
        matrix, vector = float(each[self.product].sum()), float(each[~self.product].sum())
        launched = matrix + vector - parameters.hidden * min(matrix, vector)
        return launched * (1 + parameters.skew * math.log2(cards)) + self.network_alone


@functools.cache
def measures(network: str, name: str, cards: int, batch: int) -> Measures:
    (lowered,) = (x for x in launches(network, batch) if len(x.cluster.nodes) > 1)
    known = chip(name)
    units = work(known, lowered.program, frozenset(lowered.made.values()))
    return Measures(
        np.array([w.unit.product for w in units]),
        np.array([w.engine for w in units]),
        np.array([w.hbm_bytes / known.hbm_bandwidth for w in units]),
        step_time(known, [lowered], cards).network_alone,
    )


def predicted(network: str, name: str, cards: int, batch: int, parameters: Parameters = FITTED) -> float:
    """Examples per second of all cards."""
    return batch * cards / measures(network, name, cards, batch).seconds(parameters, cards)


def error(row: Row, parameters: Parameters = FITTED) -> float:
    """How far the prediction is from the published figure, as a share of it."""
    return predicted(row.network, row.chip, row.cards, row.batch, parameters) / row.figure - 1


def _loss(rows: Sequence[Row], parameters: Parameters) -> float:
    return sum(math.log1p(error(row, parameters)) ** 2 for row in rows)


def fit(rows: Sequence[Row], start: Parameters = FITTED) -> Parameters:
    """The parameters with the least squares of logarithmic errors, found by steps along each that get shorter."""
    best, least = start, _loss(rows, start)
    steps = FIRST_STEPS
    for _ in range(HALVINGS):
        better = True
        while better:
            better = False
            for field in fields(Parameters):
                name = field.name
                for sign in (1, -1):
                    value = getattr(best, name) + sign * getattr(steps, name)
                    value = min(max(value, getattr(LOWEST, name)), getattr(HIGHEST, name))
                    trial = replace(best, **{name: value})
                    loss = _loss(rows, trial)
                    if loss < least - 1e-9:
                        best, least, better = trial, loss, True
        steps = Parameters(*(step / 2 for step in astuple(steps)))
    return best


def main() -> None:
    if sys.argv[1:] == ["fit"]:
        best = fit(ROWS)
        print(best)
        for row in ROWS:
            others = [other for other in ROWS if other is not row]
            alone = fit(others, best)
            print(f"{row}: {error(row, best):+.1%}; left out: {error(row, alone):+.1%} {alone}")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
