"""One process gets the card its variables name, or an error that says which variable is wrong."""

from __future__ import annotations

import re

import pytest

from habana_tf.hardware.cards import CardError, cards, chosen_card, visible_cards


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HABANA_SIM_CARDS", "HABANA_VISIBLE_MODULES", "HLS_MODULE_ID", "HLS1_MODULE_ID"):
        monkeypatch.delenv(name, raising=False)


def test_a_machine_has_eight_different_cards() -> None:
    machine = cards()
    assert [card.module_id for card in machine] == list(range(8))
    assert len({card.bus_id for card in machine}) == 8
    assert all(re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:00\.0", card.bus_id) for card in machine)


@pytest.mark.parametrize(
    ("environment", "module"),
    [
        ({}, 0),
        ({"HABANA_VISIBLE_MODULES": "6,5"}, 6),
        ({"HLS_MODULE_ID": "7"}, 7),
        ({"HABANA_VISIBLE_MODULES": "4,5", "HLS_MODULE_ID": "5"}, 5),
        ({"HLS1_MODULE_ID": "3"}, 3),
    ],
)
def test_the_chosen_card(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], module: int) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert chosen_card().module_id == module


def test_visible_cards_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_VISIBLE_MODULES", "3,1")
    assert [card.module_id for card in visible_cards()] == [3, 1]


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"HABANA_VISIBLE_MODULES": "0,9"}, "HABANA_VISIBLE_MODULES.*module id 9.*8 card.*0 to 7"),
        ({"HLS_MODULE_ID": "8"}, "HLS_MODULE_ID.*module id 8.*0 to 7"),
        ({"HLS1_MODULE_ID": "8"}, "HLS1_MODULE_ID.*module id 8"),
        ({"HABANA_SIM_CARDS": "2", "HLS_MODULE_ID": "2"}, "module id 2.*2 card.*HABANA_SIM_CARDS"),
        (
            {"HABANA_VISIBLE_MODULES": "0,1", "HLS_MODULE_ID": "2"},
            "=2 is not among HABANA_VISIBLE_MODULES=0,1",
        ),
    ],
)
def test_a_missing_card_is_an_error(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], message: str) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(CardError, match=message):
        chosen_card()
