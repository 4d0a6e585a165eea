"""Holds predictions of generation against published rows, and writes their tables into `docs/fidelity.md`.

python -m tests.card.model.generation_fidelity rows                  each row and its error, which takes minutes
python -m tests.card.model.generation_fidelity largest [model ..]    what it predicts of models in fp8

A row with a reason is not predicted: a setting decides it that is not known or not modelled.
"""

from __future__ import annotations

import csv
import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import habana_tf
from habana_tf.card.prediction.generation import GenerationPrediction
from tests.card.model.generation_models import EAGER, configuration


@dataclass(frozen=True)
class Row:
    """figure, unit: tokens/s of new tokens, ms to the first one, or s for all. reason: why it is not predicted."""

    id: str
    model: str
    chip: str
    tp: int
    precision: str
    batch: int
    input: int
    output: int
    cache: str
    buckets: int | None
    release: str
    figure: float
    unit: str
    reason: str
    source: str


def _row(fields: dict[str, str]) -> Row:
    numbers = {name: int(fields[name]) for name in ("tp", "batch", "input", "output")}
    buckets = int(fields["buckets"]) if fields["buckets"] else None
    return Row(**{**fields, **numbers, "buckets": buckets, "figure": float(fields["figure"])})


with Path(__file__).with_name("generation.csv").open(encoding="utf-8", newline="") as file:
    ROWS = tuple(map(_row, csv.DictReader(file)))

PREDICTED_ROWS = tuple(row for row in ROWS if not row.reason)


@functools.cache
def _told(
    model: str, chip: str, tp: int, precision: str, batch: int, lengths: tuple[int, int], cache: str,
    buckets: int | None,
) -> GenerationPrediction:  # fmt: skip
    config = configuration(model)
    attention = "eager" if config.model_type in EAGER else "fused"
    return habana_tf.predict_generation(
        config, *lengths, batch=batch, tp=tp, precision=precision, kv_cache=cache, buckets=buckets,
        attention=attention, chip=chip, release="1.21",
    )  # fmt: skip


def told(row: Row) -> float:
    """The prediction of a row, in its unit."""
    found = _told(
        row.model, row.chip, row.tp, row.precision, row.batch, (row.input, row.output), row.cache, row.buckets
    )
    if row.unit == "tokens/s":
        return found.tokens_per_second
    return found.first_token * 1e3 if row.unit == "ms" else found.seconds


def error(row: Row) -> float:
    """How much faster the prediction is than the card was, as a share."""
    made = told(row)
    return (made / row.figure if row.unit == "tokens/s" else row.figure / made) - 1


def rows() -> None:
    """Prints the table of rows, and the errors by precision."""
    found: dict[str, list[float]] = {}
    print("| row | model | chip | cards | batch | in, out | release | figure | predicted | error |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for row in PREDICTED_ROWS:
        made = error(row)
        found.setdefault(row.precision, []).append(abs(made))
        print(
            f"| {row.id} | {row.model}, {row.precision} | {row.chip} | {row.tp} | {row.batch:,} | {row.input}, "
            f"{row.output} | {row.release} | {row.figure:,.5g} {row.unit} | {told(row):,.5g} | {made:+.0%} |",
            flush=True,
        )
    for precision, each in found.items():
        print(f"{precision}: {len(each)} rows, mean {sum(each) / len(each):.1%}, worst {max(each):.1%}")


ASKED = {
    "LLaMA 2 7B": 1, "LLaMA 3.1 8B": 1, "Mistral 7B": 1, "LLaMA 2 70B": 8, "LLaMA 3.1 70B": 8, "LLaMA 3.1 405B": 8,
}  # fmt: skip
"""Cards of each model."""


def largest(names: Sequence[str] = tuple(ASKED)) -> None:
    """Prints what models in fp8 are predicted to do, with one sequence and with as many as fit."""
    print("| model | chip | cards | in, out | batch | first token | a token | tokens/s | GiB a card |")
    print("|---|---|---|---|---|---|---|---|---|")
    for model in names:
        tp = ASKED[model]
        for chip in ("gaudi2", "gaudi3"):
            for lengths in ((128, 128), (128, 2048), (2048, 128), (2048, 2048)):
                for batch in (1, _told(model, chip, tp, "fp8", 1, lengths, "static", 128).largest_batch):
                    made = _told(model, chip, tp, "fp8", batch, lengths, "static", 128) if batch else None
                    if made is None:
                        print(f"| {model} | {chip} | {tp} | {lengths[0]}, {lengths[1]} | none fits | | | | |")
                        continue
                    token = made.token[sorted(made.token)[len(made.token) // 2]]
                    print(
                        f"| {model} | {chip} | {tp} | {lengths[0]:,}, {lengths[1]:,} | {batch:,} | "
                        f"{made.first_token * 1e3:,.0f} ms | {token * 1e3:,.1f} ms | {made.tokens_per_second:,.0f} | "
                        f"{made.memory / 2**30:.0f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    rows() if sys.argv[1] == "rows" else largest(sys.argv[2:] or tuple(ASKED))
