"""What hosts give and take, against sums made by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from habana_tf.card.model.host import PYTHON_SECONDS, UNKNOWN, Host


def test_cards_share_what_a_host_gives_and_have_loaders_of_their_own() -> None:
    assert Host(1000).input_seconds(50, 1) == pytest.approx(0.05)
    assert Host(1000).input_seconds(50, 8) == pytest.approx(0.4), "eight cards take 400 examples"
    assert Host(1000, loaders=2).input_seconds(50, 1) == pytest.approx(0.025)
    assert Host(1000, loaders=2).input_seconds(50, 8) == pytest.approx(0.025)


def test_with_prefetch_the_longest_counts_without_it_the_sum() -> None:
    host: dict[str, Any] = {"input_rate": 1000, "python_seconds": 0.002}
    for card, expected in ((0.1, 0.1), (0.01, 0.05), (0.001, 0.05)):
        assert Host(**host).step_seconds(card, 50, 1) == pytest.approx(expected)
        assert Host(**host, prefetch=False).step_seconds(card, 50, 1) == pytest.approx(card + 0.052)
    assert Host(python_seconds=0.02).step_seconds(0.01, 50, 8) == pytest.approx(0.02), "Python"
    assert Host(**host).fed_seconds(0.001) == pytest.approx(0.002)


def test_nothing_waits_for_a_host_of_which_nothing_is_known() -> None:
    assert UNKNOWN.rate(8) == math.inf and UNKNOWN.pipelines_needed(0.1, 50, 8) is None
    assert UNKNOWN.step_seconds(0.1, 50, 8) == 0.1
    assert Host().step_seconds(0.0, 50, 8) == PYTHON_SECONDS


@pytest.mark.parametrize("loaders", [None, 1, 3])
@pytest.mark.parametrize("cards", [1, 4, 8])
def test_so_many_pipelines_are_enough_and_one_less_is_not(loaders: int | None, cards: int) -> None:
    card, batch = 0.0317, 50
    needed = Host(290.0, loaders).pipelines_needed(card, batch, cards)
    assert needed is not None and needed > 1

    def waits(count: int) -> bool:
        host = Host(290.0, count) if loaders else Host(290.0 * count)
        return host.input_seconds(batch, cards) > max(card, host.python_seconds)

    assert not waits(needed) and waits(needed - 1)


def test_a_rate_that_just_suffices_needs_no_more() -> None:
    """0.1 s for 50 examples are 500 a second, however it is rounded."""
    for rate in (500.0, 500.0 / 3, 500.0 / 7):
        assert Host(rate).pipelines_needed(0.1, 50, 1) == round(500 / rate)


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"input_rate": 0}, "input_rate=0"),
        ({"input_rate": math.nan}, "input_rate=nan"),
        ({"input_rate": math.inf}, "input_rate=inf"),
        ({"input_rate": 10, "loaders": 0}, "loaders=0"),
        ({"python_seconds": -1}, "python_seconds=-1"),
    ],
)
def test_numbers_that_cannot_be(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Host(**wrong)
