"""Writes the tables and the plot of `docs/fidelity.md`."""

from __future__ import annotations

from collections.abc import Sequence

import habana_tf
from habana_tf.tensorflow.dry_run.weightless import without_values
from tests.card.model.pages import DOCS, put
from tests.card.model.plots import plot
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


def write(published: list[str], groups: list[str], sensitivity: list[str], errors: Sequence[tuple[Row, float]]) -> None:
    """The tables into the page, and the plot beside it."""
    put({"published": published, "groups": groups, "sensitivity": sensitivity, "predictions": predictions_table()})
    points = [
        (row.chip, row.figure / row.cards, row.figure / row.cards * (1 + error), row.group not in NOT_FITTED)
        for row, error in errors
    ]
    (DOCS / "fidelity.svg").write_text(plot(points, 20, 8000), "utf-8")
