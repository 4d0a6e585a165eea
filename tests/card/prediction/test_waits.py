"""For what cards wait: times by hand."""

from __future__ import annotations

from habana_tf.card.prediction.ranks import Event, simulated
from habana_tf.card.prediction.waits import waits
from tests.card.prediction.test_ranks import call, launch


def found(ranks: dict[int, list[Event]], seconds: float) -> list[tuple[int, float, float, int | None]]:
    return [(w.rank, w.begin, w.end, w.other) for w in waits(simulated(ranks, lambda _: seconds))]


def test_until_a_collective_begins_it_is_for_the_last_rank_and_then_for_the_network() -> None:
    ranks: dict[int, list[Event]] = {
        0: [launch(1), call("all_reduce", 7), launch(2), launch(1, 7)],  # computes until 3 beside the collective
        1: [launch(5), call("all_reduce", 7), launch(1, 7)],
    }
    assert found(ranks, 4) == [(0, 3, 5, 1), (0, 5, 9, None), (1, 5, 9, None)]


def test_a_card_that_works_meanwhile_does_not_wait() -> None:
    ranks: dict[int, list[Event]] = {
        0: [launch(1), call("all_reduce", 7), launch(6), launch(1, 7)],
        1: [launch(2), call("all_reduce", 7), launch(5), launch(1, 7)],
    }
    assert found(ranks, 4) == []


def test_a_stage_waits_for_the_one_before_it() -> None:
    ranks: dict[int, list[Event]] = {0: [launch(3), call("send")], 1: [call("recv", 7, sends=-2), launch(1, 7)]}
    assert found(ranks, 1) == [(1, 0, 3, 0), (1, 3, 4, None)]
