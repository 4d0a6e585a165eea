"""The fitted parameters against the published rows: each prediction within what `docs/fidelity.md` says."""

from __future__ import annotations

import math
from dataclasses import fields

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
            assert abs(fidelity.error(row)) < WORST, row
            step = step_time(chip(row.chip), fidelity.launches(row.network, row.batch), row.cards)
            told = fidelity.predicted(row.network, row.chip, row.cards, row.batch)
            assert math.isclose(row.batch * row.cards / step.seconds, told, rel_tol=5e-3), row


@pytest.mark.slow
@pytest.mark.rest
@of_keras_2
@on_hpu
def test_published_rows_of_bert() -> None:
    from tests.card.model import fidelity
    from tests.card.model.published import ROWS

    for row in ROWS:
        if row.network != "ResNet50":
            assert abs(fidelity.error(row)) < WORST, row
