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

FIRST_STEPS = Parameters(hidden=0.1, tpc_rate=0.1, launch=4e-6, skew=0.004)
"""How far the search goes at first, per parameter."""
LOWEST, HIGHEST = Parameters(0.0, 0.1, 0.0, 0.0), Parameters(1.0, 1.0, 4e-5, 0.05)
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


PREDICTED = (
    ("ResNet50", 256), ("ResNeXt101-32x4d", 128), ("SSD-ResNet34", 128), ("EfficientNet-B0", 256),
    ("BERT-large-128", 64), ("BERT-large-512", 8), ("ViT-B/16-160", 128), ("ViT-B/16-224", 64), ("U-Net", 8),
)  # fmt: skip
"""What is predicted without having been fitted to: the network, and examples per card."""
CHIPS, CARDS = ("gaudi", "gaudi2", "gaudi3"), (1, 8, 32, 256)


def published_table(best: Parameters = FITTED) -> list[str]:
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
            f"{error(row, best):+.1%} | {error(row, fit(others, best)):+.1%} |"
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


def plot(best: Parameters = FITTED) -> str:
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
        print(best, *published_table(best), sep="\n")
    elif sys.argv[1:] == ["docs"]:
        write()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
