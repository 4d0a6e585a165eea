"""Layouts as `plan(cards=)` records them, beside the rule by which rows of training are told (`language_fidelity`): the
same models, cards and batches in bf16, which both have.

python -m tests.card.model.plan_fidelity        writes the table of docs/fidelity.md
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import transformers

from habana_tf.card.prediction.layouts import Layout
from habana_tf.dry_run.layouts import _Search
from habana_tf.dry_run.ranks import Jobs
from tests.card.model.language_fidelity import ROWS, Row, seconds
from tests.card.model.language_models import CONFIGURATIONS
from tests.card.model.pages import put

NAMED = ("C1", "L048", "L061", "L062", "L049")
"""Of each setting of training one row."""


def recorded(row: Row) -> float:
    """Seconds of a step by `plan`, whether or not it fits."""
    given: dict[str, Any] = dict(CONFIGURATIONS[row.asked.model])
    kind, layers = given.pop("kind"), given.pop("layers")
    config = getattr(transformers, f"{kind}Config")(**given, num_hidden_layers=layers)
    batch = row.micro * row.asked.batch * row.copies
    search = _Search(config, Jobs(row.chip, None, row.release), row.cards, row.asked.length, batch)
    search.room = 2**60
    at = Layout(row.asked.tensor, row.stages, row.copies, 1, row.asked.batch, row.micro, "none", "bf16")
    found = search._row(at)
    assert found is not None
    return found.seconds


def table() -> Iterator[str]:
    yield "| model | cards | tp, pp, dp | batch, tokens | by the rule | recorded by `plan` | ratio |"
    yield "|---|--:|---|---|--:|--:|--:|"
    for row in (next(row for row in ROWS if row.id == name) for name in NAMED):
        asked = replace(row.asked, fp8=False)
        rule, found = seconds(replace(row, asked=asked)), recorded(row)
        yield (
            f"| {asked.model} | {row.cards} | {asked.tensor}, {row.stages}, {row.copies} | {row.micro} x {asked.batch}"
            f", {asked.length:,} | {rule:.2f} s | {found:.2f} s | {found / rule:.2f} |"
        )


if __name__ == "__main__":
    put({"language plan": [*table()]})
