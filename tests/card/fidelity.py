"""Fits the parameters of the card's model to published rows, and writes the tables and the plot of `docs/fidelity.md`.

python -m tests.card.fidelity fit         the best parameters, leave-one-out, sensitivity
python -m tests.card.fidelity docs        with the parameters as they are: tables and plot into docs/
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Sequence
from dataclasses import astuple, fields, replace
from pathlib import Path

from habana_tf.bf16_config import using  # noqa: F401
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


def predicted(network: str, name: str, cards: int, batch: int, parameters: Parameters = FITTED) -> float:
    """Examples per second of all cards."""
    step = step_time(chip(name), launches(network, batch), cards, parameters=parameters)
    return batch * cards / step.seconds


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
