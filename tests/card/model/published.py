"""Published training throughput on real cards, that the model's parameters are fitted to and predictions held against.

All in bf16 with fp32 accumulation, a whole training step with its optimizer. MLPerf's BERT is trained on packed
samples: two of them are counted as one sequence.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

NOT_FITTED = {
    "host-bound": "a few dozen steps, or one loader process: the host takes the longest",
    "early PyTorch": "the first releases of Habana's PyTorch bridge, whose overhead this model has not",
    "depthwise": "not explained: see the text",
}
"""Groups that the model does not stand for, and why."""


@dataclass(frozen=True)
class Row:
    """figure: examples (sequences) per second of all cards. batch: of a micro-batch on a card; accumulate:
    micro-batches of a step. box: empty for the usual one of the chip. release: of Habana's software."""

    network: str
    chip: str
    cards: int
    batch: int
    accumulate: int
    box: str
    release: str
    framework: str
    figure: float
    group: str
    source: str


def _row(fields: dict[str, str]) -> Row:
    numbers = {name: int(fields[name]) for name in ("cards", "batch", "accumulate")}
    return Row(**{**fields, **numbers, "figure": float(fields["figure"])})


with Path(__file__).with_name("published.csv").open(encoding="utf-8", newline="") as file:
    ROWS = tuple(map(_row, csv.DictReader(file)))

FITTED_ROWS = tuple(row for row in ROWS if row.group not in NOT_FITTED)
