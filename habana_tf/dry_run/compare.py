"""`compare()`: a step on several chips, batches and numbers of cards, as one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from habana_tf.card.prediction.prediction import Prediction
from habana_tf.card.tabular_report import TabularReport
from habana_tf.dry_run.predict import costed, foreseen
from habana_tf.dry_run.traced import as_specs, batch_of, with_batch
from habana_tf.hardware.chips import chips as all_chips


@dataclass(frozen=True)
class Comparison(TabularReport):
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

    def tables(self) -> Any:
        from habana_tf.card.prediction.report import comparison

        return comparison(self.rows)


def compare(
    fn_or_model: Any, *inputs: Any, chips: Iterable[str] | None = None, batches: Iterable[int] = (),
    cards: Iterable[int] = (1,), precisions: Iterable[str] = ("bf16",), optimizer: Any = None,
) -> Comparison:  # fmt: skip
    """`predict` for every combination; arguments as there.

    chips: all three by default. batches: per card, by default the one of the inputs; others change the first size of
    every input that has that size now. Each batch and precision is traced once.
    """
    specs = as_specs(inputs)
    named = tuple(chips) if chips is not None else tuple(each.name for each in all_chips())
    counts = tuple(cards)
    rows: list[Prediction] = []
    for precision in precisions:
        for batch in tuple(batches) or (batch_of(specs),):
            _, found = foreseen(fn_or_model, with_batch(specs, batch), precision, optimizer)
            rows += [costed(found, batch, chip, count, precision) for chip in named for count in counts]
    return Comparison(tuple(rows))
