"""Fits the model's parameters of language models to published rows of their training, and tells the distance to them.

python -m tests.card.model.language_fidelity fit     the best parameters, and each model by parameters fitted without it
python -m tests.card.model.language_fidelity docs    with the parameters as they are: the tables of docs/fidelity.md

A step is told from micro-batches of one and of two layers, because what layers add is equal:

    (micro-batches + stages - 1) x (the layers of a stage, with the head's; sums of their results over tensor parallel
    cards) + sum of the gradients of a stage over data parallel cards + the optimizer, which reads and writes its state
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
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from habana_tf.card.model.cluster_time import work
from habana_tf.card.model.collective_time import collective_seconds
from habana_tf.card.model.network import slowest
from habana_tf.card.model.parameters import FITTED, Parameters
from habana_tf.hardware.boxes import box
from habana_tf.hardware.chips import chip
from tests.card.model.language_models import CONFIGURATIONS, Asked, traced
from tests.card.model.pages import DOCS, put
from tests.card.model.plots import plot

NAMES = ("attention", "streamed", "gaudi3")
STEPS = (0.2, 0.1, 0.05, 0.025, 0.0125)
OPTIMIZER_BYTES = 30
"""Of a parameter in a step: its master copy and two moments in fp32 read and written, its gradient read, its copy in
bf16 written."""
GRADIENT_BYTES = 2
SEQUENCE_PARALLEL = 1.25
"""How much more tensor parallel cards send where each has a part of the sequence: in the backward pass what the forward
pass gathered is gathered again."""


@dataclass(frozen=True)
class Row:
    """A published figure. stages, copies: pipeline stages and data parallel cards; micro: micro-batches of a step;
    sharded: stage of ZeRO; sequence: whether tensor parallel cards share it, too; counted: what the figure counts of a
    sequence, a second. kind: training or fine-tuning; reason: why a row is not fitted."""

    id: str
    asked: Asked
    chip: str
    stages: int
    copies: int
    micro: int
    sharded: int
    sequence: bool
    release: str
    figure: float
    counted: int
    kind: str
    reason: str

    @property
    def cards(self) -> int:
        return self.asked.tensor * self.stages * self.copies


def _row(f: dict[str, str]) -> Row:
    asked = Asked(
        f["model"], int(f["batch"]), int(f["length"]), int(f["tensor"]), f["precision"] == "fp8", f["attention"],
        f["trained"], f["recompute"] == "yes", f["classifies"] == "yes",
    )  # fmt: skip
    return Row(
        f["id"], asked, f["chip"], int(f["stages"]), int(f["copies"]), int(f["micro"]), int(f["zero"]),
        f["sequence"] == "yes", f["release"], float(f["figure"]), int(f["length"]) if f["unit"] == "tokens/s" else 1,
        f["kind"], f["reason"],
    )  # fmt: skip


with Path(__file__).with_name("language.csv").open(encoding="utf-8", newline="") as file:
    ROWS = tuple(map(_row, csv.DictReader(file)))
FITTED_ROWS = tuple(row for row in ROWS if not row.reason)
TO_CHECK = tuple(row for row in ROWS if not row.figure)
"""Predictions of what others may publish."""


@dataclass(frozen=True)
class Work:
    """Of units, as `cluster_time` counts them: seconds of products and of kernels at their peak, by what slows them;
    seconds of HBM; how many units."""

    products: float = 0.0
    streamed: float = 0.0
    attention_products: float = 0.0
    kernels: float = 0.0
    attention_kernels: float = 0.0
    memory: float = 0.0
    units: float = 0.0

    def plus(self, other: Work, times: float = 1.0) -> Work:
        return Work(*(a + times * b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def seconds(self, p: Parameters, rate: float) -> float:
        """As `cluster_time.together` has them. rate: of products."""
        matrix = (self.products + self.streamed / p.streamed + p.attention * self.attention_products) / rate
        vector = (self.kernels + p.attention * self.attention_kernels) / p.tpc_rate
        _, second, longest = sorted((matrix, vector, self.memory))
        return longest + (1 - p.hidden) * second + p.launch * self.units


@functools.cache
def _measured(asked: Asked, name: str, layers: int) -> Work:
    known, total = chip(name), Work()
    for each in traced(asked, layers).launched:
        for w in work(known, each.program, frozenset(each.made.values())):
            kind = "attention_" if w.attention else ""
            field = kind + ("products" if w.unit.product else "kernels")
            found = Work(memory=w.hbm_bytes / known.hbm_bandwidth, units=1)
            total = total.plus(replace(found, **{"streamed" if w.streamed else field: w.engine}))
    return total


def seconds(row: Row, parameters: Parameters = FITTED) -> float:
    """Of a step."""
    p, known, asked = parameters.at(row.release), chip(row.chip), row.asked
    one, two = (_measured(asked, row.chip, n) for n in (1, 2))
    layers = CONFIGURATIONS[asked.model]["layers"] / row.stages
    micro = one.plus(two.plus(one, -1), layers - 1).seconds(p, p.gaudi3 if known.mme_held_back else 1.0)
    machine = box(known)
    if asked.tensor > 1:
        nbytes = 2 * asked.batch * asked.length * CONFIGURATIONS[asked.model]["hidden_size"]
        each = collective_seconds(known, machine, "all_reduce", nbytes, range(asked.tensor), p.launch)
        micro += 4 * layers * each * (SEQUENCE_PARALLEL if row.sequence else 1.0)
    if row.sharded == 3:  # each layer's weights, in bf16, for the forward and for the backward pass
        held = (traced(asked, 2).held - traced(asked, 1).held) * layers
        once = collective_seconds(known, machine, "all_gather", 2 * int(held), range(row.copies), p.launch)
        micro += once * (3 if asked.recompute else 2)
    first, second = (traced(asked, n).trained for n in (1, 2))
    trained = first + (layers - 1) * (second - first)
    copies = range(0, row.copies * asked.tensor, asked.tensor)
    summed = collective_seconds(known, machine, "all_reduce", int(GRADIENT_BYTES * trained), copies, p.launch)
    updated = OPTIMIZER_BYTES * trained / (row.copies if row.sharded else 1) / known.hbm_bandwidth
    step = (row.micro + row.stages - 1) * micro + summed + updated
    return step * (1 + p.skew * slowest(row.cards))


def throughput(row: Row, parameters: Parameters = FITTED) -> float:
    return row.micro * row.asked.batch * row.copies * row.counted / seconds(row, parameters)


def error(row: Row, parameters: Parameters = FITTED) -> float:
    """How far the prediction is from the published figure, as a share of it."""
    return throughput(row, parameters) / row.figure - 1


def fit(rows: Sequence[Row]) -> Parameters:
    """The parameters of language models with the least squares of logarithmic errors; rows of one model in one setting
    count as one."""
    count = {row: sum((r.asked, r.chip) == (row.asked, row.chip) for r in rows) for row in rows}

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


def rows_table() -> list[str]:
    lines = ["| model | what | chip | cards | tp, pp, dp | batch, tokens | precision | release | published | "
             "predicted | error | model left out |",
             "|---|---|---|--:|---|---|---|---|--:|--:|--:|--:|"]  # fmt: skip
    for row in (row for row in ROWS if row.figure):
        a, found = row.asked, error(row)
        other = f"{error(row, without(a.model)):+.1%}" if not row.reason else row.reason
        batch = f"{row.micro} x {a.batch}, {a.length:,}"
        lines.append(
            f"| {a.model} | {row.kind} | {row.chip} | {row.cards} | {a.tensor}, {row.stages}, {row.copies} | {batch} | "
            f"{'fp8' if a.fp8 else 'bf16'} | {row.release} | {row.figure:,.6g} | {throughput(row):,.5g} | "
            f"{found:+.1%} | {other} |"
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
        a, begin = row.asked, time.perf_counter()
        traced.cache_clear()
        _measured.cache_clear()
        step = seconds(row)
        took, tokens = time.perf_counter() - begin, row.micro * a.batch * row.copies * a.length / step
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        lines.append(
            f"| {a.model} | {row.kind} | {row.chip} | {row.cards} | {a.tensor}, {row.stages}, {row.copies} | "
            f"{row.micro} x {a.batch}, {a.length:,} | {'fp8' if a.fp8 else 'bf16'} | {step:.2f} s | {tokens:,.0f} | "
            f"{took:.1f} s, {memory:.1f} GiB |"
        )
    return lines


def main() -> None:
    if sys.argv[1:] == ["fit"]:
        print(fit(FITTED_ROWS), *groups_table(), *rows_table(), sep="\n")
    elif sys.argv[1:] == ["docs"]:
        checked = to_check_table()
        put({"language rows": rows_table(), "language groups": groups_table(), "language to check": checked})
        points = [
            (row.chip, row.figure / row.cards, throughput(row) / row.cards, not row.reason)
            for row in ROWS
            if row.figure
        ]
        (DOCS / "language.svg").write_text(plot(points, 1, 10_000), "utf-8")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
