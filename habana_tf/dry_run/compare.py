"""`compare()`: a step on several chips, batches and numbers of cards, as one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from habana_tf.card.model.host import Host
from habana_tf.card.model.parameters import LATEST
from habana_tf.card.prediction.prediction import Prediction
from habana_tf.dry_run.predict import costed, foreseen, precision_why
from habana_tf.hardware.chips import chips as all_chips
from habana_tf.reports.report import Report
from habana_tf.reports.table import Table
from habana_tf.tensorflow.dry_run.input_rate import fed_by
from habana_tf.tensorflow.dry_run.traced import as_specs, batch_of, examples_with, with_batch


@dataclass(frozen=True, repr=False)
class Comparison(Report):
    """Predictions in the order in which they were asked for. print(it) shows a table; iterate for its rows."""

    rows: tuple[Prediction, ...]

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def best(self) -> Prediction:
        """The one with the most examples per second of those that fit; of all, where none does."""
        fitting = [row for row in self.rows if row.fits] or list(self.rows)
        return max(fitting, key=lambda row: row.examples_per_second)

    def to_dict(self) -> list[dict[str, Any]]:
        return [row.to_dict() for row in self.rows]

    def summary(self) -> str:
        if not self.rows:
            return "no predictions"
        best = self.best()
        return f"{len(self.rows)} predictions, best {best.examples_per_second:,.0f} examples/s on {best.chip}"

    def shown(self) -> list[str | Table]:
        from habana_tf.card.prediction.report import comparison

        waiting = [row for row in self.rows if row.input_bound]
        notes = [
            f"input-bound: {row.cards} x {row.chip}, batch {row.batch}, {row.precision}; "
            f"{row.limits.fed_examples_per_second:,.0f} examples/s with an input that gives "
            f"{row.limits.needed_input_rate:,.0f} to each host"
            for row in waiting
        ]
        return [comparison(self.rows), *notes]


def compare(
    fn_or_model: Any, *inputs: Any, chips: Iterable[str] | None = None, batches: Iterable[int] = (),
    cards: Iterable[int] = (1,), precisions: Iterable[str] = ("bf16",), optimizer: Any = None,
    host: Host | None = None, dataset: Any = None, release: str = LATEST, accumulate: int = 1,
    resident: Any = None, box: str | None = None,
) -> Comparison:  # fmt: skip
    """`predict` for every combination; arguments as there. A dataset is measured once.

    chips: all three by default. batches: per card, by default the one of the inputs; others change the first size of
    every input that has that size now. box: for chips that are in it. Each batch and precision is traced once.
    """
    specs = as_specs(inputs)
    named = tuple(chips) if chips is not None else tuple(each.name for each in all_chips())
    counts = tuple(cards)
    fed = fed_by(host, dataset, specs)
    rows: list[Prediction] = []
    for precision in precisions:
        for batch in tuple(batches) or (batch_of(specs),):
            examples = examples_with(inputs, specs, batch)
            _, found = foreseen(fn_or_model, with_batch(specs, batch), precision, optimizer, examples)
            why = precision_why(fn_or_model, precision)
            rows += [
                costed(found, batch, chip, count, precision, why, fed, box, release, accumulate, resident)
                for chip in named
                for count in counts
            ]
    return Comparison(tuple(rows))
