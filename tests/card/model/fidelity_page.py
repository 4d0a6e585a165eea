"""Writes the tables and the plot of `docs/fidelity.md`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import habana_tf
from habana_tf.tensorflow.dry_run.weightless import without_values
from tests.card.model.pages import DOCS, put
from tests.card.model.published import NOT_FITTED, Row
from tests.card.model.transformers import ALL

CHIPS, CARDS = ("gaudi", "gaudi2", "gaudi3"), (1, 8, 32, 256)
PREDICTED = (
    ("ResNet50", 256), ("ResNeXt101-32x4d", 128), ("SSD-ResNet34", 128), ("EfficientNet-B0", 256),
    ("BERT-large-384", 24), ("BERT-large-512", 16), ("GPT-2", 16), ("ViT-B/16-224", 64), ("U-Net", 8),
)  # fmt: skip
"""The network, and examples per card."""


def predictions_table() -> list[str]:
    """Examples per second as `habana_tf.compare` tells a user."""
    lines = ["| network | batch | chip | " + " | ".join(f"{n} card{'s' if n > 1 else ''}" for n in CARDS) + " |"]
    lines.append("|---|--:|---|" + "--:|" * len(CARDS))
    for network, batch in PREDICTED:
        with without_values():
            model = ALL[network].build()
        found = habana_tf.compare(model, *ALL[network].inputs(batch), chips=CHIPS, cards=CARDS)
        for name in CHIPS:
            speeds = " | ".join(f"{row.examples_per_second:,.0f}" for row in found.rows if row.chip == name)
            lines.append(f"| {network} | {batch} | {name} | {speeds} |")
    return lines


LOW, HIGH, SIDE, EDGE = math.log10(20), math.log10(8000), 360, 50
COLOURS = {"gaudi": "#b35900", "gaudi2": "#2a5db0", "gaudi3": "#1f7a3d"}
MARKS = {"gaudi": "circle", "gaudi2": "square", "gaudi3": "diamond"}


def _at(value: float) -> float:
    return EDGE + (math.log10(value) - LOW) / (HIGH - LOW) * SIDE


def _y(value: float) -> float:
    return SIDE + 2 * EDGE - _at(value)


def _mark(chip: str, x: float, y: float, filled: bool) -> str:
    fill = COLOURS[chip] if filled else "none"
    style = f'fill="{fill}" stroke="{COLOURS[chip]}"'
    if MARKS[chip] == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {style}/>'
    turn = f' transform="rotate(45 {x:.1f} {y:.1f})"' if MARKS[chip] == "diamond" else ""
    return f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" {style}{turn}/>'


def plot(errors: Sequence[tuple[Row, float]]) -> str:
    """Predicted against published throughput per card, both logarithmic, as SVG; the band is ten percent. Hollow marks
    are rows that the model does not stand for."""

    def band(factor: float) -> str:
        first, last = 10**LOW, 10**HIGH
        return f"{_at(first):.1f},{_y(first * factor):.1f} {_at(last):.1f},{_y(last * factor):.1f}"

    back = " ".join(reversed(band(0.9).split()))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIDE + 2 * EDGE + 60} {SIDE + 2 * EDGE}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="100%" height="100%" fill="white"/><polygon points="{band(1.1)} {back}" fill="#dde6f0"/>',
        f'<polyline points="{band(1.0)}" stroke="#446" fill="none"/>',
    ]
    for tick in (20, 50, 100, 200, 500, 1000, 2000, 5000):
        parts.append(f'<text x="{_at(tick):.1f}" y="{EDGE + SIDE + 16}" text-anchor="middle">{tick}</text>')
        parts.append(f'<text x="{EDGE - 6}" y="{_y(tick) + 4:.1f}" text-anchor="end">{tick}</text>')
    for row, error in errors:
        published = row.figure / row.cards
        parts.append(_mark(row.chip, _at(published), _y(published * (1 + error)), row.group not in NOT_FITTED))
    for k, chip in enumerate(CHIPS):
        parts.append(_mark(chip, EDGE + SIDE + 20, EDGE + 16 * k, True))
        parts.append(f'<text x="{EDGE + SIDE + 30}" y="{EDGE + 4 + 16 * k}">{chip}</text>')
    parts.append(f'<text x="{EDGE + SIDE / 2}" y="{EDGE + SIDE + 36}" text-anchor="middle">published, per card</text>')
    middle = EDGE + SIDE / 2
    turned = f'x="14" y="{middle}" transform="rotate(-90 14 {middle})" text-anchor="middle"'
    parts.append(f"<text {turned}>predicted</text></svg>")
    return "\n".join(parts) + "\n"


def write(published: list[str], groups: list[str], sensitivity: list[str], errors: Sequence[tuple[Row, float]]) -> None:
    """The tables into the page, and the plot beside it."""
    put({"published": published, "groups": groups, "sensitivity": sensitivity, "predictions": predictions_table()})
    (DOCS / "fidelity.svg").write_text(plot(errors), "utf-8")
