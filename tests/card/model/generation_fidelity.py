"""Holds predictions of generation against published rows, and writes their tables into `docs/fidelity.md`.

python -m tests.card.model.generation_fidelity rows                  each row and its error, into the page, with a plot
python -m tests.card.model.generation_fidelity largest [model ..]    what it predicts of models in fp8; of all into it

A row with a reason is not predicted: a setting decides it that is not known or not modelled.
"""

from __future__ import annotations

import csv
import functools
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import habana_tf
from habana_tf.card.prediction.generation import GenerationPrediction
from habana_tf.dry_run import generation
from tests.card.model.generation_models import EAGER, configuration
from tests.card.model.pages import DOCS, put
from tests.card.model.plots import Point, plot


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
    split: int
    release: str
    figure: float
    unit: str
    reason: str
    source: str


def _row(fields: dict[str, str]) -> Row:
    numbers = {name: int(fields[name]) for name in ("tp", "batch", "input", "output", "split")}
    buckets = int(fields["buckets"]) if fields["buckets"] else None
    return Row(**{**fields, **numbers, "buckets": buckets, "figure": float(fields["figure"])})


with Path(__file__).with_name("generation.csv").open(encoding="utf-8", newline="") as file:
    ROWS = tuple(map(_row, csv.DictReader(file)))

PREDICTED_ROWS = tuple(row for row in ROWS if not row.reason)
NOT_EXPLAINED = (
    "no faster on Gaudi3 than on Gaudi2: the host decides", "its cache is changed by index_add, not modelled",
)  # fmt: skip
"""Reasons of rows that were predicted and left out when their errors were seen."""


@functools.cache
def _told(
    model: str, chip: str, tp: int, precision: str, batch: int, lengths: tuple[int, int], cache: str,
    buckets: int | None, split: int = 1,
) -> GenerationPrediction:  # fmt: skip
    config = configuration(model)
    attention = "eager" if config.model_type in EAGER else "fused"
    return habana_tf.predict_generation(
        config, *lengths, batch=batch, tp=tp, precision=precision, kv_cache=cache, buckets=buckets,
        attention=attention, chip=chip, release="1.21", batch_split=split,
    )  # fmt: skip


def prediction(row: Row) -> GenerationPrediction:
    return _told(
        row.model, row.chip, row.tp, row.precision, row.batch, (row.input, row.output), row.cache, row.buckets,
        row.split,
    )  # fmt: skip


def told(row: Row) -> float:
    """The prediction of a row, in its unit."""
    found = prediction(row)
    if row.unit == "tokens/s":
        return found.tokens_per_second
    return found.first_token * 1e3 if row.unit == "ms" else found.seconds


def error(row: Row) -> float:
    """How much faster the prediction is than the card was, as a share."""
    made = told(row)
    return (made / row.figure if row.unit == "tokens/s" else row.figure / made) - 1


GROUPS = {
    "fp8, one card, 44 sequences and more": lambda row: row.precision == "fp8" and row.tp == 1 and row.batch > 1,
    "fp8, 2 to 8 cards": lambda row: row.precision == "fp8" and row.tp > 1,
    "fp8, one card, one sequence": lambda row: row.precision == "fp8",
    "bf16, one card, 256 and 512 sequences": lambda row: row.batch > 100,
    "bf16, 2 to 8 cards, one sequence": lambda row: row.tp > 1,
    "bf16, one card, 1 to 4 sequences": lambda row: True,
}  # fmt: skip
"""Of rows: the first that holds."""


def _group(row: Row) -> str:
    return "first token" if row.unit == "ms" else next(name for name, holds in GROUPS.items() if holds(row))


def rows() -> None:
    """Writes the tables of rows, and their plot; prints each row as it is there."""
    generation._TRIES = 1  # whether a row's batch fits is enough
    table = [
        "| row | model | chip | cards | batch, parts | in, out | release | published | predicted | error | fits |",
        "|---|---|---|--:|---|---|---|--:|--:|--:|---|",
    ]
    points: list[Point] = []
    found: dict[str, list[tuple[float, Row]]] = {}
    for row in (row for row in ROWS if row.reason in ("", *NOT_EXPLAINED)):
        made = error(row)
        if not row.reason:
            for name in (_group(row), "all"):
                found.setdefault(name, []).append((made, row))
        if row.unit == "tokens/s":
            points.append((row.chip, row.figure / row.tp, told(row) / row.tp, not row.reason))
        parts = f", {row.split}" if row.split > 1 else ""
        table.append(
            f"| {row.id} | {row.model}, {row.precision} | {row.chip} | {row.tp} | {row.batch:,}{parts} | "
            f"{row.input:,}, {row.output:,} | {row.release} | {row.figure:,.5g} {row.unit} | {told(row):,.5g} | "
            f"{made:+.0%} | {row.reason or ('yes' if prediction(row).fits else 'no')} |"
        )
        print(table[-1], flush=True)
    groups = ["| rows | number | mean error | worst |", "|---|--:|--:|---|"]
    for name in (*GROUPS, "first token", "all"):
        worst, row = max(found[name], key=lambda each: abs(each[0]))
        mean = sum(abs(made) for made, _ in found[name]) / len(found[name])
        where = f"{row.model}, {row.input:,} and {row.output:,}, {row.tp} {row.chip}, {row.release}"
        groups.append(f"| {name} | {len(found[name])} | {mean:.1%} | {worst:+.0%}: {where} |")
    print(*groups, sep="\n")
    put({"generation groups": groups, "generation rows": table})
    (DOCS / "generation.svg").write_text(plot(points, 5, 40_000), "utf-8")


ASKED = {
    "LLaMA 2 7B": 1, "LLaMA 3.1 8B": 1, "Mistral 7B": 1, "LLaMA 2 70B": 8, "LLaMA 3.1 70B": 8, "LLaMA 3.1 405B": 8,
}  # fmt: skip
"""Cards of each model."""


def largest(names: Sequence[str] = tuple(ASKED)) -> None:
    """Prints what models in fp8 are predicted to do, with one sequence and with as many as fit; of all models, into the
    page."""
    table = [
        "| model | chip | cards | in, out | batch | first token | a token | tokens/s | GiB a card |",
        "|---|---|--:|---|--:|--:|--:|--:|--:|",
    ]
    for model, chip, lengths in itertools.product(
        names, ("gaudi2", "gaudi3"), itertools.product((128, 2048), repeat=2)
    ):
        tp, one = ASKED[model], _told(model, chip, ASKED[model], "fp8", 1, lengths, "static", 128)
        for batch in (1, one.largest_batch):
            made = _told(model, chip, tp, "fp8", batch, lengths, "static", 128)
            token = made.token[sorted(made.token)[len(made.token) // 2]]
            table.append(
                f"| {model} | {chip} | {tp} | {lengths[0]:,}, {lengths[1]:,} | {batch:,} | "
                f"{made.first_token * 1e3:,.0f} ms | {token * 1e3:,.1f} ms | {made.tokens_per_second:,.0f} | "
                f"{made.memory / 2**30:.0f} |"
            )
            print(table[-1], flush=True)
    if tuple(names) == tuple(ASKED):
        put({"largest": table})


if __name__ == "__main__":
    rows() if sys.argv[1] == "rows" else largest(sys.argv[2:] or tuple(ASKED))
