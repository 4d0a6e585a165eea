"""Holds predictions of generation against published rows, and writes their tables into `docs/fidelity.md`.

python -m tests.card.model.generation_fidelity fit                   `Parameters.graph` by least squares of all rows
python -m tests.card.model.generation_fidelity rows                  each row and its error, into the page, with a plot
python -m tests.card.model.generation_fidelity largest [model ..]    what it predicts of models in fp8; of all into it

A row with a reason is not predicted: a setting decides it that is not known or not modelled. A model is recorded once,
however often its rows are predicted.
"""

from __future__ import annotations

import csv
import functools
import itertools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from habana_tf.card.model.parameters import FITTED
from habana_tf.card.prediction.generation import GenerationPrediction
from habana_tf.dry_run import generation
from habana_tf.hardware.boxes import box
from habana_tf.hardware.chips import chip as chip_named
from habana_tf.torch import loader
from habana_tf.torch.dry_run.forward_passes import Meter
from habana_tf.torch.dry_run.generation import Setting
from tests.card.model.generation_models import attention, configuration
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


RELEASE = "1.21"
GRAPHS = tuple(k * 0.25e-6 for k in range(12, 41))
"""Values of `Parameters.graph` that are tried."""


@functools.cache
def _meter(model: str, chip: str, tp: int, precision: str) -> Meter:
    loader.load()
    known = chip_named(chip)
    setting = Setting(configuration(model), tp, precision, precision, attention(model))
    return Meter(setting, known, box(known), FITTED.at(RELEASE))


@functools.cache
def _told(
    model: str, chip: str, tp: int, precision: str, batch: int, lengths: tuple[int, int], cache: str,
    buckets: int | None, split: int = 1, graph: float = FITTED.graph,
) -> GenerationPrediction:  # fmt: skip
    meter = _meter(model, chip, tp, precision)
    meter.parameters = replace(meter.parameters, graph=graph)
    answer = generation.Answer(*lengths, cache == "growing", buckets, split)
    return generation.predicted(meter, answer, batch, (), RELEASE)


def prediction(row: Row, graph: float = FITTED.graph) -> GenerationPrediction:
    return _told(
        row.model, row.chip, row.tp, row.precision, row.batch, (row.input, row.output), row.cache, row.buckets,
        row.split, graph,
    )  # fmt: skip


def told(row: Row, graph: float = FITTED.graph) -> float:
    """The prediction of a row, in its unit."""
    found = prediction(row, graph)
    if row.unit == "tokens/s":
        return found.tokens_per_second
    return found.first_token * 1e3 if row.unit == "ms" else found.seconds


def error(row: Row, graph: float = FITTED.graph) -> float:
    """How much faster the prediction is than the card was, as a share."""
    made = told(row, graph)
    return (made / row.figure if row.unit == "tokens/s" else row.figure / made) - 1


@functools.cache
def fitted(without: str = "") -> float:
    """`Parameters.graph` by least squares of the errors' logarithms, of all models or without the rows of one."""
    rows = [row for row in PREDICTED_ROWS if row.model != without]
    return min(GRAPHS, key=lambda graph: sum(math.log1p(error(row, graph)) ** 2 for row in rows))


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


def _left_out(row: Row) -> float:
    """Its error by parameters that were fitted without its model."""
    return error(row, fitted(row.model))


def _summary(how: Callable[[Row], float], rows: Sequence[Row]) -> tuple[str, str]:
    """The mean of the errors of rows, and the worst."""
    worst = max(rows, key=lambda row: abs(how(row)))
    where = f"{worst.model}, {worst.input:,} and {worst.output:,}, {worst.tp} {worst.chip}, {worst.release}"
    return f"{sum(abs(how(row)) for row in rows) / len(rows):.1%}", f"{how(worst):+.0%}: {where}"


def rows() -> None:
    """Writes the tables of rows, and their plot; prints each row as it is there."""
    table = [
        "| row | model | chip | cards | batch, parts | in, out | release | published | predicted | error "
        "| model left out | fits |",
        "|---|---|---|--:|---|---|---|--:|--:|--:|--:|---|",
    ]
    points: list[Point] = []
    found: dict[str, list[Row]] = {}
    for row in (row for row in ROWS if row.reason in ("", *NOT_EXPLAINED)):
        if not row.reason:
            for name in (_group(row), "all"):
                found.setdefault(name, []).append(row)
        if row.unit == "tokens/s":
            points.append((row.chip, row.figure / row.tp, told(row) / row.tp, not row.reason))
        parts = f", {row.split}" if row.split > 1 else ""
        table.append(
            f"| {row.id} | {row.model}, {row.precision} | {row.chip} | {row.tp} | {row.batch:,}{parts} | "
            f"{row.input:,}, {row.output:,} | {row.release} | {row.figure:,.5g} {row.unit} | {told(row):,.5g} | "
            f"{error(row):+.0%} | {_left_out(row):+.0%} | "
            f"{row.reason or ('yes' if prediction(row).fits else 'no')} |"
        )
        print(table[-1], flush=True)
    groups = ["| rows | number | mean error | worst | mean, model left out | worst |", "|---|--:|--:|---|--:|---|"]
    for name in (*GROUPS, "first token", "all"):
        cells = [cell for how in (error, _left_out) for cell in _summary(how, found[name])]
        groups.append(f"| {name} | {len(found[name])} | {' | '.join(cells)} |")
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
    if sys.argv[1] == "largest":
        largest(sys.argv[2:] or tuple(ASKED))
    else:
        generation._TRIES = 1  # whether a row's batch fits is enough
        print({name or "all": f"{fitted(name):.2e}" for name in ("", *sorted({row.model for row in PREDICTED_ROWS}))})
        if sys.argv[1] == "rows":
            rows()
