"""One process gets the card its variables name, or an error that says which variable is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from habana_tf.hardware.cards import CardError, cards, choice, visible_cards

pytestmark = pytest.mark.usefixtures("without_settings")


RANK_2 = {
    "OMPI_COMM_WORLD_RANK": "6",
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_LOCAL_RANK": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
}
ELASTIC = {"HOROVOD_RANK": "1", "HOROVOD_SIZE": "2", "HOROVOD_LOCAL_RANK": "1", "HOROVOD_LOCAL_SIZE": "2"}


def test_a_machine_has_eight_different_cards() -> None:
    machine = cards()
    assert [card.module_id for card in machine] == list(range(8))
    for each in (lambda c: c.bus_id, lambda c: c.serial, lambda c: c.uuid):
        assert len({each(card) for card in machine}) == 8
    assert all(re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:00\.0", card.bus_id) for card in machine)


@pytest.mark.parametrize(
    ("environment", "modules"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 6, 7]),
        ({"HABANA_VISIBLE_MODULES": "6,5"}, [6, 5]),
        ({"HLS_MODULE_ID": "7"}, [7]),
        ({"HABANA_VISIBLE_MODULES": "4,5", "HLS_MODULE_ID": "5"}, [5]),
        ({"HLS1_MODULE_ID": "3"}, [3]),
        (RANK_2, [2]),
        ({**RANK_2, "HABANA_VISIBLE_MODULES": "7,5,3"}, [3]),
        ({**RANK_2, "HLS_MODULE_ID": "0"}, [0]),
        ({**ELASTIC, "HOROVOD_ELASTIC": "1"}, [1, 0, 2, 3, 4, 5, 6, 7]),
        ({**ELASTIC, "HOROVOD_ELASTIC": "1", "HABANA_VISIBLE_MODULES": "4,2"}, [2, 4]),
        ({**ELASTIC, "HOROVOD_ELASTIC": "0"}, [1]),
    ],
)
def test_the_cards_to_try(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], modules: list[int]) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert [card.module_id for card in choice().cards] == modules


def test_another_machine_has_other_cards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = {card.uuid for card in cards()}
    monkeypatch.setenv("HABANA_SIM_STATE_DIR", str(tmp_path))
    assert here.isdisjoint(card.uuid for card in cards())


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
        (
            {**RANK_2, "HABANA_VISIBLE_MODULES": "4,5"},
            "local rank 2 .OMPI_COMM_WORLD_LOCAL_RANK. of 4 processes.* 2 card.*4,5.*HABANA_VISIBLE_MODULES",
        ),
    ],
)
def test_a_missing_card_is_an_error(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], message: str) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(CardError, match=message):
        choice()
