"""Fits the parameters of the card's model to published rows, and writes the tables and the plot of `docs/fidelity.md`.

python -m tests.card.model.fidelity fit         the best parameters, leave-one-out, other values of launch
python -m tests.card.model.fidelity docs        with the parameters as they are: tables and plot into docs/
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

import habana_tf
from habana_tf.card.model.cluster_time import work
from habana_tf.card.model.lowered import Lowered
from habana_tf.card.model.parameters import FITTED, Parameters
from habana_tf.card.model.step_time import step_time
from habana_tf.card.prediction.prediction import Prediction
from habana_tf.dry_run.weightless import without_values
from habana_tf.hardware.chips import chip
from tests.card.model.networks import NETWORKS
from tests.card.model.published import ROWS, Row

DOCS = Path(__file__).parents[3] / "docs"
CHIPS, CARDS = ("gaudi", "gaudi2", "gaudi3"), (1, 8, 32, 256)

LOWEST, HIGHEST = Parameters(0.0, 0.1, 5e-6, 0.005), Parameters(0.6, 1.0, 15e-6, 0.02)
"""What a card may have, see docs/fidelity.md: a fit to few rows must not go where no card is."""
HALVINGS = 8


@functools.cache
def one_card(network: str, batch: int) -> Prediction:
    """What `habana_tf.predict` tells a user for one Gaudi."""
    with without_values():
        model = NETWORKS[network].build()
    return habana_tf.predict(model, *NETWORKS[network].inputs(batch), chip=CHIPS[0])


def launches(network: str, batch: int) -> tuple[Lowered, ...]:
    """What a training step of a network launches."""
    return one_card(network, batch).launched


@dataclass(frozen=True)
class Measures:
    """All that the step of a row is made of but the parameters. Arrays hold one number per unit."""

    product: Any
    engine: Any
    memory: Any
    network_alone: float

    def seconds(self, parameters: Parameters, cards: int) -> float:
        """As `card.model.step_time` has them; the network's part hardly depends on the parameters."""
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


ALL_CARDS = tuple(sorted({*CARDS, *(row.cards for row in ROWS)}))


@functools.cache
def public(network: str, batch: int) -> dict[tuple[str, int], Prediction]:
    """What `habana_tf.compare` tells a user, by chip and cards."""
    with without_values():
        model = NETWORKS[network].build()
    rows = habana_tf.compare(model, *NETWORKS[network].inputs(batch), chips=CHIPS, cards=ALL_CARDS)
    return {(row.chip, row.cards): row for row in rows}


def predicted(network: str, name: str, cards: int, batch: int, parameters: Parameters | None = None) -> float:
    """Examples per second of all cards: with parameters that are tried, or else as a user is told."""
    if parameters is None:
        return public(network, batch)[name, cards].examples_per_second
    return batch * cards / measures(network, name, cards, batch).seconds(parameters, cards)


def error(row: Row, parameters: Parameters | None = None) -> float:
    """How far the prediction is from the published figure, as a share of it; parameters as for `predicted`."""
    return predicted(row.network, row.chip, row.cards, row.batch, parameters) / row.figure - 1


def _loss(rows: Sequence[Row], parameters: Parameters) -> float:
    return sum(math.log1p(error(row, parameters)) ** 2 for row in rows)


def fit(rows: Sequence[Row], lowest: Parameters = LOWEST, highest: Parameters = HIGHEST) -> Parameters:
    """The parameters with the least squares of logarithmic errors, between the bounds: from the middle, by steps along
    several of them at once, because one often makes up for another, that get shorter."""
    low, high = np.array(astuple(lowest)), np.array(astuple(highest))
    best, step = (low + high) / 2, (high - low) / 4
    least = _loss(rows, Parameters(*best))
    ways = [np.array(way) for way in itertools.product((-1, 0, 1), repeat=len(best)) if any(way)]
    for _ in range(HALVINGS):
        while True:
            trials = [np.clip(best + way * step, low, high) for way in ways]
            losses = [_loss(rows, Parameters(*trial)) for trial in trials]
            if min(losses) >= least - 1e-9:
                break
            least = min(losses)
            best = trials[losses.index(least)]
        step = step / 2
    return Parameters(*map(float, best))


def launch_table() -> list[str]:
    """How well the rows are met with one value of `launch` or another, the other parameters fitted for each."""
    lines = ["| launch | typical error |", "|--:|--:|"]
    for launch in (5e-6, 6.5e-6, 8e-6, 10e-6, 12e-6, 15e-6):
        found = fit(ROWS, replace(LOWEST, launch=launch), replace(HIGHEST, launch=launch))
        lines.append(f"| {launch * 1e6:g} us | {math.sqrt(_loss(ROWS, found) / len(ROWS)):.1%} |")
    return lines


PREDICTED = (
    ("ResNet50", 256), ("ResNeXt101-32x4d", 128), ("SSD-ResNet34", 128), ("EfficientNet-B0", 256),
    ("BERT-large-128", 64), ("BERT-large-512", 8), ("ViT-B/16-160", 128), ("ViT-B/16-224", 64), ("U-Net", 8),
)  # fmt: skip
"""What is predicted without having been fitted to: the network, and examples per card."""


def published_table(best: Parameters | None = None) -> list[str]:
    """Published, predicted, and predicted by parameters that were fitted without the row."""
    lines = [
        "| network | chip | cards | batch | published | predicted | error | row left out |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for row in ROWS:
        others = [other for other in ROWS if other is not row]
        speed = predicted(row.network, row.chip, row.cards, row.batch, best)
        lines.append(
            f"| {row.network} | {row.chip} | {row.cards} | {row.batch} | {row.figure:,.0f} | {speed:,.0f} | "
            f"{error(row, best):+.1%} | {error(row, fit(others)):+.1%} |"
        )
    return lines


def sensitivity_table(best: Parameters = FITTED) -> list[str]:
    """What a quarter more of a parameter does to each row."""
    lines = ["| parameter | value | " + " | ".join(f"{r.network}, {r.cards} x {r.chip}" for r in ROWS) + " |"]
    lines.append("|---|--:|" + "--:|" * len(ROWS))
    for field in fields(Parameters):
        more = replace(best, **{field.name: 1.25 * getattr(best, field.name)})
        changes = [(1 + error(row, more)) / (1 + error(row, best)) - 1 for row in ROWS]
        value = f"{getattr(best, field.name):g}"
        lines.append(f"| {field.name} | {value} | " + " | ".join(f"{c:+.1%}" for c in changes) + " |")
    return lines


def predictions_table() -> list[str]:
    """Examples per second of networks that nothing was fitted to, and of those that were."""
    lines = ["| network | batch | chip | " + " | ".join(f"{n} card{'s' if n > 1 else ''}" for n in CARDS) + " |"]
    lines.append("|---|--:|---|" + "--:|" * len(CARDS))
    for network, batch in PREDICTED:
        for name in CHIPS:
            speeds = " | ".join(f"{predicted(network, name, n, batch):,.0f}" for n in CARDS)
            lines.append(f"| {network} | {batch} | {name} | {speeds} |")
    return lines


def plot(best: Parameters | None = None) -> str:
    """Predicted against published throughput per card, both logarithmic, as SVG; the band is ten percent."""
    low, high, side, edge = math.log10(20), math.log10(8000), 360, 50

    def at(value: float) -> float:
        return (math.log10(value) - low) / (high - low) * side

    def y(value: float) -> float:
        return edge + side - at(value)

    def band(factor: float) -> str:
        first, last = 10**low, 10**high
        return f"{edge:.0f},{y(first * factor):.1f} {edge + side:.0f},{y(last * factor):.1f}"

    back = " ".join(reversed(band(0.9).split()))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side + 2 * edge + 150} {side + 2 * edge}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="100%" height="100%" fill="white"/><polygon points="{band(1.1)} {back}" fill="#dde6f0"/>',
        f'<polyline points="{band(1.0)}" stroke="#446" fill="none"/>',
    ]
    for tick in (20, 50, 100, 200, 500, 1000, 2000, 5000):
        x = edge + at(tick)
        parts.append(f'<text x="{x:.1f}" y="{edge + side + 16}" text-anchor="middle">{tick}</text>')
        parts.append(f'<text x="{edge - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick}</text>')
    for k, row in enumerate(ROWS):
        published, told = (
            row.figure / row.cards,
            predicted(row.network, row.chip, row.cards, row.batch, best) / row.cards,
        )
        mark = "abcdefghij"[k]
        x = edge + at(published)
        parts.append(f'<circle cx="{x:.1f}" cy="{y(told):.1f}" r="4" fill="#c33"/>')
        parts.append(f'<text x="{x + (6 if k % 2 else -12):.1f}" y="{y(told) - 5:.1f}">{mark}</text>')
        where = f'x="{edge + side + 10}" y="{edge + 16 * (k + 1)}"'
        parts.append(f"<text {where}>{mark} {row.network}, {row.cards} x {row.chip}</text>")
    parts.append(f'<text x="{edge + side / 2}" y="{edge + side + 36}" text-anchor="middle">published, per card</text>')
    middle = edge + side / 2
    turned = f'x="14" y="{middle}" transform="rotate(-90 14 {middle})" text-anchor="middle"'
    parts.append(f"<text {turned}>predicted</text></svg>")
    return "\n".join(parts) + "\n"


def write() -> None:
    """The tables into `docs/fidelity.md`, between the marks, and the plot beside it."""
    page = DOCS / "fidelity.md"
    text = page.read_text("utf-8")
    tables = {"published": published_table(), "sensitivity": sensitivity_table(), "predictions": predictions_table()}
    for name, lines in tables.items():
        before, _, rest = text.partition(f"<!-- {name} -->\n")
        _, _, after = rest.partition(f"<!-- end of {name} -->")
        text = f"{before}<!-- {name} -->\n" + "\n".join(lines) + f"\n<!-- end of {name} -->{after}"
    page.write_text(text, "utf-8")
    (DOCS / "fidelity.svg").write_text(plot(), "utf-8")


def main() -> None:
    if sys.argv[1:] == ["fit"]:
        best = fit(ROWS)
        print(best, *published_table(best), *launch_table(), sep="\n")
    elif sys.argv[1:] == ["docs"]:
        write()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
