"""Rows of a comparison: every combination, and the best that fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from habana_tf.card.model.host import Host
from habana_tf.dry_run.compare import Comparison
from tests.card.prediction.test_report import GB, prediction
from tests.child import on_hpu


def test_the_best_of_those_that_fit() -> None:
    small, large, huge = prediction(1), prediction(8), prediction(64)
    huge.step.memory["activations"] = 500 * GB
    assert Comparison((small, large, huge)).best() is large
    assert Comparison((huge,)).best() is huge, "none fits"


def test_a_line_for_each_and_plain_data() -> None:
    rows = Comparison((prediction(1), prediction(8)))
    assert len(rows) == 2 and [row.cards for row in rows] == [1, 8]
    shown = [line for line in str(rows).splitlines() if "gaudi2" in line]
    assert len(shown) == 2 and "2,415" in shown[1]
    assert [row["cards"] for row in rows.to_dict()] == [1, 8]
    assert "2,415" in rows._repr_html_()


def test_rows_that_wait_for_their_input_say_so() -> None:
    """A host gives 2,000 examples a second; eight cards in a box could take 2,415, one 302."""
    rows = Comparison(tuple(replace(prediction(cards), fed_by=Host(2000)) for cards in (1, 8)))
    assert rows.text(200).splitlines()[-1] == (
        "input-bound: 8 x gaudi2, batch 32, bf16; 2,415 examples/s with an input that gives 2,415 to each host"
    )
    assert str(rows).count("input-bound") == 1 and "2,000" in str(rows)


@on_hpu
def test_every_combination_once_in_order() -> None:
    import tensorflow as tf

    import habana_tf

    traces = []

    def f(x: Any) -> Any:
        traces.append(x.shape[0])
        return tf.tanh(x) * 2.0

    rows = list(
        habana_tf.compare(
            f, (8, 64), chips=["gaudi", "gaudi3"], batches=[8, 16], cards=[1, 2], precisions=["bf16", "fp32"]
        )
    )
    assert traces == [8, 16, 8, 16], "traced once for each batch and precision"
    keys = [(r.precision, r.batch, r.chip, r.cards) for r in rows]
    assert keys == [
        (p, b, c, n) for p in ("bf16", "fp32") for b in (8, 16) for c in ("gaudi", "gaudi3") for n in (1, 2)
    ]
