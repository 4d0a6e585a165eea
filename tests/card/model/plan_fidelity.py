"""Layouts as `plan(cards=)` records them, beside published rows of training and the rule by which those are told
(`language_fidelity`), to which parameters are fitted.

python -m tests.card.model.plan_fidelity        writes the table of docs/fidelity.md
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import transformers

from habana_tf.card.prediction.layouts import Layout
from habana_tf.dry_run.layouts import _Search
from habana_tf.dry_run.ranks import Jobs
from tests.card.model.language_fidelity import ROWS, Row, seconds, throughput
from tests.card.model.language_models import CONFIGURATIONS
from tests.card.model.pages import put

NAMED = ("L059", "L060", "L061", "L062", "C1")
"""Of each setting of training one row."""


def recorded(row: Row) -> float:
    """Tokens a second by `plan`, whether or not it fits."""
    given: dict[str, Any] = dict(CONFIGURATIONS[row.asked.model])
    kind, layers = given.pop("kind"), given.pop("layers")
    config = getattr(transformers, f"{kind}Config")(**given, num_hidden_layers=layers)
    batch = row.micro * row.asked.batch * row.copies
    search = _Search(config, Jobs(row.chip, None, row.release), row.cards, row.asked.length, batch)
    search.room = 2**60
    precision = "fp8" if row.asked.fp8 else "bf16"
    at = Layout(
        row.asked.tensor, row.stages, row.copies, 1, row.asked.batch, row.micro, "none", precision, row.sequence
    )
    found = search._row(at)
    assert found is not None
    return found.tokens_per_second


def table() -> Iterator[str]:
    yield "| model | cards | tp, pp, dp | batch, tokens | release | published | by the rule | by `plan` |"
    yield "|---|--:|---|---|---|--:|--:|--:|"
    for row in (next(row for row in ROWS if row.id == name) for name in NAMED):
        asked, figure = row.asked, row.figure
        if figure:
            rule, plan = (f"{n:,.0f} ({n / figure - 1:+.1%})" for n in (throughput(row), recorded(row)))
        else:
            tokens = row.micro * asked.batch * row.copies * asked.length
            rule, plan = (f"{n:,.0f}" for n in (tokens / seconds(row), recorded(row)))
        yield (
            f"| {asked.model} | {row.cards} | {asked.tensor}, {row.stages}, {row.copies} | {row.micro} x {asked.batch}"
            f", {asked.length:,} | {row.release} | {f'{figure:,.0f}' if figure else ''} | {rule} | {plan} |"
        )


if __name__ == "__main__":
    put({"language plan": [*table()]})
