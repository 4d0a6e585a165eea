"""The fitted parameters against the published rows: each prediction within what `docs/fidelity.md` says."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path

import pytest

from habana_tf.card.model.parameters import FITTED, LATEST, LATEST_FITTED, SPREAD, Parameters, check_release
from tests.card.model.published import FITTED_ROWS, ROWS
from tests.child import on_hpu
from tests.versions import KERAS_3

of_keras_2 = pytest.mark.skipif(
    KERAS_3, reason="the networks are written for Keras 2, whose legacy optimizers they train with"
)
PAGE = Path(__file__).parents[3] / "docs" / "fidelity.md"
WORST, MEAN = 0.20, 0.08
"""Errors of rows that the model stands for."""


def test_there_are_nine_at_most_and_each_is_possible() -> None:
    assert len(fields(Parameters)) == 9
    assert all(0 < share <= 1 for share in (FITTED.attention, FITTED.streamed, FITTED.gaudi3))
    assert 0 <= FITTED.hidden <= 1 and 0 < FITTED.tpc_rate <= 1 and FITTED.launch >= 0 and FITTED.skew >= 0


def test_a_release_changes_the_rate_of_kernels() -> None:
    rates = [FITTED.at(release).tpc_rate for release in ("0.14", "1.0", "1.5.1", "1.10", "1.21", "2.0")]
    assert rates[0] == rates[1] == pytest.approx(FITTED.tpc_rate / (1 + FITTED.early))
    assert rates[2] == pytest.approx(FITTED.tpc_rate / (1 + FITTED.early / 2))
    assert rates[3:] == [FITTED.tpc_rate] * 3 and FITTED.at(LATEST) == LATEST_FITTED


@pytest.mark.parametrize("wrong", ["", "latest", "1", "v1.4", "1.x"])
def test_what_is_no_release_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="give that of Habana's software"):
        check_release(wrong)


def test_the_page_s_errors_are_as_good_as_is_asked() -> None:
    """The table of the page, which other tests hold to what is predicted."""
    cells = [[c.strip() for c in line.split("|")] for line in PAGE.read_text("utf-8").splitlines()]
    (everything,) = (c for c in cells if c[1:2] == ["all that the model stands for"])
    mean, worst, left_out = (abs(float(everything[k].rstrip("%"))) / 100 for k in (3, 4, 5))
    assert mean < MEAN and worst < WORST and left_out < 0.09
    rows = [c for c in cells if len(c) == 11 and c[3].isdigit() and c[9][-1:] == "%"]
    assert len(rows) == len(ROWS)
    known = [float(c[9].rstrip("%")) / 100 for c, row in zip(rows, ROWS, strict=True) if row in FITTED_ROWS]
    inside = [error for error in known if 1 / (1 + SPREAD) <= 1 + error <= 1 + SPREAD]
    assert len(inside) >= 0.9 * len(known), "what `range` says of nine of ten"


def figures(network: str, chip: str) -> list[str]:
    """What `docs/fidelity.md` has for a network on 1, 8, 32 and 256 cards."""
    lines = PAGE.read_text("utf-8").splitlines()
    (cells,) = (row[4:-1] for line in lines if (row := [c.strip() for c in line.split("|")])[1:4:2] == [network, chip]
                and len(row) == 9)  # fmt: skip
    return cells


@pytest.mark.slow
@pytest.mark.rest
@of_keras_2
@on_hpu
def test_published_rows_of_resnet50_and_what_the_fit_is_made_of() -> None:
    from tests.card.model import fidelity

    rows = [row for row in ROWS if row.network == "ResNet50"]
    assert all(abs(fidelity.error(row)) < WORST for row in rows)
    for row in (rows[0], rows[-1]):
        told = fidelity.predicted(row)
        assert math.isclose(told.examples_per_second / row.figure - 1, fidelity.error(row), abs_tol=5e-3), row
    one = fidelity.told("ResNet50", 256)
    assert figures("ResNet50", one.chip)[0] == f"{one.examples_per_second:,.0f}"


@pytest.mark.slow
@pytest.mark.rest
@of_keras_2
@on_hpu
def test_published_rows_of_transformers_of_base_size_and_what_a_user_is_told_of_others() -> None:
    import habana_tf
    from tests.card.model import fidelity
    from tests.card.model.fidelity_page import CARDS, CHIPS
    from tests.card.model.transformers import ALL

    for row in FITTED_ROWS:
        if row.group in ("fine-tuning, base", "ViT"):
            assert abs(fidelity.error(row)) < WORST, row
    found = habana_tf.compare(ALL["EfficientNet-B0"].build(), *ALL["EfficientNet-B0"].inputs(256), cards=CARDS)
    for name in CHIPS:
        speeds = [f"{row.examples_per_second:,.0f}" for row in found.rows if row.chip == name]
        assert figures("EfficientNet-B0", name) == speeds, name
