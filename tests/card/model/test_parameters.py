"""The fitted parameters against the published rows: each prediction within what `docs/fidelity.md` says."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path

import pytest

from habana_tf.card.model.parameters import FITTED, Parameters
from tests.child import on_hpu
from tests.versions import KERAS_3

of_keras_2 = pytest.mark.skipif(
    KERAS_3, reason="the networks are written for Keras 2, whose legacy optimizers they train with"
)
WORST = 0.07
"""The largest error of a row in docs/fidelity.md is under this."""


def test_there_are_six_at_most_and_each_is_possible() -> None:
    assert len(fields(Parameters)) <= 6
    assert 0 <= FITTED.hidden <= 1 and 0 < FITTED.tpc_rate <= 1 and FITTED.launch >= 0 and FITTED.skew >= 0


@of_keras_2
@on_hpu
def test_published_rows_of_resnet50_and_what_the_fit_is_made_of() -> None:
    from habana_tf.card.model.step_time import step_time
    from habana_tf.hardware.chips import chip
    from tests.card.model import fidelity
    from tests.card.model.published import ROWS

    for row in ROWS:
        if row.network == "ResNet50":
            assert abs(fidelity.error(row, FITTED)) < WORST, row
            step = step_time(chip(row.chip), fidelity.launches(row.network, row.batch), row.cards)
            told = fidelity.predicted(row.network, row.chip, row.cards, row.batch, FITTED)
            assert math.isclose(row.batch * row.cards / step.seconds, told, rel_tol=5e-3), row


def figures(network: str, chip: str) -> list[str]:
    """What `docs/fidelity.md` has for a network on 1, 8, 32 and 256 cards."""
    lines = (Path(__file__).parents[3] / "docs" / "fidelity.md").read_text("utf-8").splitlines()
    (cells,) = (row[4:-1] for line in lines if (row := [c.strip() for c in line.split("|")])[1:4:2] == [network, chip])
    return cells


@of_keras_2
@on_hpu
def test_the_page_has_what_a_user_is_told() -> None:
    from tests.card.model import fidelity

    told = fidelity.one_card("ResNet50", 256)
    assert figures("ResNet50", told.chip)[0] == f"{told.examples_per_second:,.0f}"


@pytest.mark.slow
@pytest.mark.rest
@of_keras_2
@on_hpu
def test_the_page_has_what_a_user_is_told_for_more_chips_and_cards() -> None:
    from tests.card.model import fidelity

    network = "EfficientNet-B0"  # it has most kernels
    batch = dict(fidelity.PREDICTED)[network]
    for name in fidelity.CHIPS:
        found = [f"{fidelity.predicted(network, name, n, batch):,.0f}" for n in fidelity.CARDS]
        assert figures(network, name) == found, name


@pytest.mark.slow
@pytest.mark.rest
@of_keras_2
@on_hpu
def test_published_rows_of_bert() -> None:
    from tests.card.model import fidelity
    from tests.card.model.published import ROWS

    for row in ROWS:
        if row.network != "ResNet50":
            assert abs(fidelity.error(row, FITTED)) < WORST, row
