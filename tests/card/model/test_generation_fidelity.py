"""Published generation: that rows are as near as the page says, and that each that is not predicted says why."""

from __future__ import annotations

import pytest

from tests.torch.child import needs_torch, on_device

pytest.importorskip("transformers")


@needs_torch
def test_rows_that_are_not_predicted_have_a_reason_and_the_others_a_configuration() -> None:
    from tests.card.model.generation_fidelity import PREDICTED_ROWS, ROWS
    from tests.card.model.generation_models import configuration

    assert len(PREDICTED_ROWS) > 0.6 * len(ROWS)
    for name in {row.model for row in PREDICTED_ROWS}:
        assert configuration(name).get_text_config().num_hidden_layers > 1


@needs_torch
@on_device("L042", "L115", "L189", modes=("lazy",))
def test_a_first_token_an_answer_on_two_cards_in_8_bits_and_one_in_16_are_near_what_was_published(row: str) -> None:
    from tests.card.model.generation_fidelity import PREDICTED_ROWS, error

    (asked,) = (each for each in PREDICTED_ROWS if each.id == row)
    assert abs(error(asked)) < 0.25
