"""Fits the model's parameters of language models to published rows of their training, and tells the distance to them.

python -m tests.card.model.language_fidelity fit     the best parameters, and each model by parameters fitted without it
python -m tests.card.model.language_fidelity docs    with the parameters as they are: the tables of docs/fidelity.md
python -m tests.card.model.language_fidelity check   that of what is to be checked, of which many stages take minutes

Steps are recorded as `plan(cards=)` records them, laid on cards as published, with what the scripts of the rows change
(`language_models`); a recording is made once, and costed with each set of parameters.
"""

from __future__ import annotations

import csv
import functools
import itertools
import math
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from habana_tf.card.model.parameters import FITTED, LATEST, Parameters
from habana_tf.card.prediction.layouts import Layout
from habana_tf.dry_run.layouts import Recorded, recorded
from habana_tf.dry_run.ranks import Jobs
from tests.card.model.language_models import Asked
from tests.card.model.pages import DOCS, put
from tests.card.model.plots import plot

NAMES = ("attention", "streamed", "gaudi3")
STEPS = (0.2, 0.1, 0.05, 0.025, 0.0125)
LAYERS = (3, 4)
"""Of a stage, through which lines lead to all of them."""
FEW = (1, 2)
"""In their place of many stages, whose recordings take minutes: of GPT-3 as good (12 layers of a stage within 0.01 %),
because a layer is large beside the words; of LLaMA 3.1 8B 14 % too fast."""


@dataclass(frozen=True)
class Row:
    """A published figure. counted: what it counts of a sequence, a second. kind: training or fine-tuning; reason: why a
    row is not fitted."""

    id: str
    asked: Asked
    layout: Layout
    chip: str
    release: str
    figure: float
    counted: int
    kind: str
    reason: str


def _row(f: dict[str, str]) -> Row:
    asked = Asked(f["model"], int(f["length"]), f["attention"], f["trained"], f["classifies"] == "yes")
    tp, pp, dp, zero, batch, micro = (int(f[k]) for k in ("tensor", "stages", "copies", "zero", "batch", "micro"))
    again = "all" if f["recompute"] == "yes" else "none"
    layout = Layout(tp, pp, dp, zero, batch, micro, again, f["precision"], f["sequence"] == "yes")
    counted = asked.length if f["unit"] == "tokens/s" else 1
    return Row(f["id"], asked, layout, f["chip"], f["release"], float(f["figure"]), counted, f["kind"], f["reason"])


with Path(__file__).with_name("language.csv").open(encoding="utf-8", newline="") as file:
    ROWS = tuple(map(_row, csv.DictReader(file)))
FITTED_ROWS = tuple(row for row in ROWS if not row.reason)
TO_CHECK = tuple(row for row in ROWS if not row.figure)
"""Predictions of what others may publish."""


@functools.cache
def _recorded(asked: Asked, layout: Layout, chip: str) -> tuple[Jobs, Recorded]:
    jobs = Jobs(chip, None, LATEST)
    layers = LAYERS if layout.pp <= 2 else FEW
    return jobs, recorded(jobs, asked.config, layout, asked.length, layers, made=asked.made)


@functools.cache
def _seconds(asked: Asked, layout: Layout, chip: str, parameters: Parameters) -> float:
    jobs, found = _recorded(asked, layout, chip)
    return found.step(found.points(jobs.by(parameters)))[0]


def seconds(row: Row, parameters: Parameters = FITTED) -> float:
    """Of a step."""
    p = parameters.at(row.release)
    if row.chip != "gaudi3":  # which no other chip reads: one evaluation for all of them
        p = replace(p, gaudi3=1.0)
    return _seconds(row.asked, row.layout, row.chip, p)


def throughput(row: Row, parameters: Parameters = FITTED) -> float:
    return row.layout.global_batch * row.counted / seconds(row, parameters)


def error(row: Row, parameters: Parameters = FITTED) -> float:
    """How far the prediction is from the published figure, as a share of it."""
    return throughput(row, parameters) / row.figure - 1


def fit(rows: Sequence[Row]) -> Parameters:
    """The parameters of language models with the least squares of logarithmic errors; rows of one model in one setting
    count as one."""
    settings = [(row.asked, row.layout, row.chip) for row in rows]
    count = {row: settings.count(setting) for row, setting in zip(rows, settings, strict=True)}

    def loss(p: Parameters) -> float:
        return sum(math.log1p(error(row, p)) ** 2 / count[row] for row in rows)

    best = replace(FITTED, **dict.fromkeys(NAMES, 0.5))
    for step in STEPS:
        while True:
            ways = itertools.product((-step, 0.0, step), repeat=len(NAMES))
            trials = [
                replace(best, **{n: min(1.0, max(0.1, getattr(best, n) + d)) for n, d in zip(NAMES, way, strict=True)})
                for way in ways
            ]
            better = min(trials, key=loss)
            if loss(better) >= loss(best) - 1e-9:
                break
            best = better
    return best


@functools.cache
def without(model: str) -> Parameters:
    """Fitted to the rows of all other models."""
    return fit([row for row in FITTED_ROWS if row.asked.model != model])


def _setting(row: Row) -> str:
    at = row.layout
    batch = f"{at.micro_batches} x {at.micro_batch}, {row.asked.length:,}"
    ways = f"{at.tp}, {at.pp}, {at.dp}"
    return f"| {row.asked.model} | {row.kind} | {row.chip} | {at.cards} | {ways} | {batch} | {at.precision}"


def rows_table() -> list[str]:
    lines = ["| model | what | chip | cards | tp, pp, dp | batch, tokens | precision | release | published | "
             "predicted | error | model left out |",
             "|---|---|---|--:|---|---|---|---|--:|--:|--:|--:|"]  # fmt: skip
    for row in (row for row in ROWS if row.figure):
        found = error(row)
        other = f"{error(row, without(row.asked.model)):+.1%}" if not row.reason else row.reason
        lines.append(
            f"{_setting(row)} | {row.release} | {row.figure:,.6g} | {throughput(row):,.5g} | {found:+.1%} | {other} |"
        )
    return lines


def groups_table() -> list[str]:
    lines = ["| rows | number | mean error | worst | mean, model left out | worst |", "|---|--:|--:|--:|--:|--:|"]
    for kind in dict.fromkeys(row.kind for row in FITTED_ROWS):
        rows = [row for row in FITTED_ROWS if row.kind == kind]
        shown = []
        for errors in ([error(r) for r in rows], [error(r, without(r.asked.model)) for r in rows]):
            shown.append(f"{sum(map(abs, errors)) / len(errors):.1%} | {max(errors, key=abs):+.1%}")
        lines.append(f"| {kind} | {len(rows)} | {' | '.join(shown)} |")
    return lines


def to_check_table() -> list[str]:
    lines = ["| model | what | chip | cards | tp, pp, dp | batch, tokens | precision | step | tokens/s | the "
             "prediction took |", "|---|---|---|--:|---|---|---|--:|--:|--:|"]  # fmt: skip
    for row in TO_CHECK:
        begin = time.perf_counter()
        step = seconds(row)
        took, tokens = time.perf_counter() - begin, row.layout.global_batch * row.asked.length / step
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        lines.append(f"{_setting(row)} | {step:.2f} s | {tokens:,.0f} | {took:.1f} s, {memory:.1f} GiB |")
    return lines


def main() -> None:
    if sys.argv[1:] == ["fit"]:
        print(fit(FITTED_ROWS), *groups_table(), *rows_table(), sep="\n")
    elif sys.argv[1:] == ["docs"]:
        put({"language rows": rows_table(), "language groups": groups_table()})
        points = [
            (row.chip, row.figure / row.layout.cards, throughput(row) / row.layout.cards, not row.reason)
            for row in ROWS
            if row.figure
        ]
        (DOCS / "language.svg").write_text(plot(points, 1, 10_000), "utf-8")
    elif sys.argv[1:] == ["check"]:
        put({"language to check": to_check_table()})
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
