"""The card's clock: launches, copies and sums of parts made by hand."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from habana_tf.card.model.network import sum_seconds
from habana_tf.card.model.parameters import FITTED
from habana_tf.card.timeline.card_clock import IN, OUT, WIRE, Launched, TimedTransfer, bundle_rows, clocks, unpredicted
from habana_tf.hardware.boxes import box
from habana_tf.hardware.chips import chip
from tests.card.timeline.parts import part

LAUNCH, TO_CARD, FROM_CARD, ON_CARD, SUM = 0, 4, 5, 6, 7
PCIE = 32e9
"""Bytes per second, of Gaudi2."""


def events(*found: tuple[int, int], size: int = 1) -> dict[str, Any]:
    """A part in which these happen one after the other: a kind, and a number of a program or bytes."""
    made = copy.deepcopy(part(0, size))
    made["threads"][0]["events"] = [[k, k + 1, subject, kind, 0, 1, 0] for k, (kind, subject) in enumerate(found)]
    return made


def walk(made: dict[str, Any]) -> list[Launched | TimedTransfer]:
    """Of a rank alone."""
    return clocks([made])[0]


def spans(made: dict[str, Any]) -> list[tuple[str, float, float]]:
    return [(x.row if isinstance(x, TimedTransfer) else "launch", x.at, x.seconds) for x in walk(made)]


def test_launches_follow_each_other() -> None:
    assert spans(events((LAUNCH, 7), (LAUNCH, 7), (LAUNCH, 7))) == [
        ("launch", pytest.approx(k * 3e-6), 3e-6) for k in range(3)]  # fmt: skip


def test_what_a_launch_is_fed_is_fetched_while_the_last_one_works() -> None:
    """48 KB take half of a launch; 480 KB take five of them, and the launch waits."""
    found = spans(events((LAUNCH, 7), (TO_CARD, 48_000), (LAUNCH, 7), (TO_CARD, 480_000), (LAUNCH, 7)))
    assert found == [
        ("launch", 0.0, 3e-6), (IN, 0.0, 1.5e-6), ("launch", 3e-6, 3e-6), (IN, 3e-6, pytest.approx(15e-6)),
        ("launch", pytest.approx(18e-6), 3e-6)]  # fmt: skip


def test_copies_from_the_card_hold_nobody_up_and_those_on_it_do() -> None:
    found = spans(events((LAUNCH, 7), (FROM_CARD, 480_000), (LAUNCH, 7), (FROM_CARD, 32_000), (ON_CARD, 2_082_500),
                         (LAUNCH, 7)))  # fmt: skip
    assert [(row, round(at * 1e6, 6), round(seconds * 1e6, 6)) for row, at, seconds in found] == [
        ("launch", 0, 3), (OUT, 3, 15), ("launch", 3, 3), (OUT, 18, 1), (OUT, 19, 2), ("launch", 21, 3)]  # fmt: skip


def test_sums_begin_when_what_they_sum_is_there() -> None:
    """Of the launch's results the one of 5,120 bytes is there after 1 us, so its sum is under way while the launch
    works; one of 999 bytes is none of them, and begins when the launch has ended. Both wait in one buffer."""
    made = events((LAUNCH, 7), (SUM, 5120), (LAUNCH, 7), size=2)
    made["programs"]["7"]["card"]["results"] = [{"at": 1e-6, "nbytes": 5120}]
    hop = 2 * FITTED.launch
    wire = hop + 2 * 5120 / 2 / (3 * 12.5e9)  # three ports to each card of a box
    then = ("launch", pytest.approx(1e-6 + wire), 3e-6)
    assert spans(made) == [("launch", 0.0, 3e-6), (WIRE, 1e-6, pytest.approx(wire)), then]
    both = events((LAUNCH, 7), (SUM, 999), (SUM, 5120), size=2)
    (found,) = (x for x in walk(both) if isinstance(x, TimedTransfer))
    assert found.nbytes == 6119 and found.at == pytest.approx(3e-6) and found.name == "sum of 2 tensors over 2 cards"


def test_ranks_meet_in_their_sums() -> None:
    """One rank has two launches before its sum, the other has one: both sums begin when the slower one is there. What
    one rank has more of it does alone."""
    slow = events((LAUNCH, 7), (LAUNCH, 7), (SUM, 5120), (LAUNCH, 7), (SUM, 4), size=2)
    quick = events((LAUNCH, 7), (SUM, 5120), (LAUNCH, 7), size=2)
    for part_ in (slow, quick):
        part_["programs"]["7"]["card"]["results"] = []
    found = clocks([slow, quick])
    sums = [[x for x in each if isinstance(x, TimedTransfer)] for each in found]
    assert [len(each) for each in sums] == [2, 1]
    assert sums[0][0] == sums[1][0] and sums[0][0].at == pytest.approx(6e-6)
    assert [x.at for x in found[1] if isinstance(x, Launched)] == [0.0, pytest.approx(6e-6 + sums[1][0].seconds)]


def test_large_sums_go_in_several_buffers_one_after_the_other() -> None:
    made = events((LAUNCH, 7), *[(SUM, 40 << 20)] * 4, size=8)
    found = [x for x in walk(made) if isinstance(x, TimedTransfer)]
    assert [x.nbytes >> 20 for x in found] == [80, 80]
    each = sum_seconds(chip("gaudi2"), box(chip("gaudi2")), 80 << 20, 8, FITTED.launch)
    assert [x.at for x in found] == [pytest.approx(3e-6), pytest.approx(3e-6 + each)]


def test_horovod_s_sums_are_told_from_copies() -> None:
    """What comes back in its own size was summed; a loss that is read and a batch that is fed are copies."""
    found = events((LAUNCH, 7), (FROM_CARD, 5120), (FROM_CARD, 4), (FROM_CARD, 999), (TO_CARD, 999), (TO_CARD, 5120),
                   (TO_CARD, 48_000), (LAUNCH, 7), (TO_CARD, 4), (LAUNCH, 7), size=2)  # fmt: skip
    rows = [(OUT, 5120), (OUT, 4), (OUT, 999), (IN, 999), (IN, 5120), (IN, 48_000), (IN, 4)]
    assert [(x.row, x.nbytes) for x in walk(found) if isinstance(x, TimedTransfer)] == rows
    found["horovod"] = True
    assert [(x.row, x.nbytes) for x in walk(found) if isinstance(x, TimedTransfer)] == [
        (OUT, 4), (IN, 48_000), (WIRE, 6119), (IN, 4)]  # fmt: skip
    found["size"] = 1
    assert [(x.row, x.nbytes) for x in walk(found) if isinstance(x, TimedTransfer)] == rows


def test_one_card_sums_with_nobody() -> None:
    assert spans(events((LAUNCH, 7), (SUM, 4096), (LAUNCH, 7)))[1] == ("launch", 3e-6, 3e-6)


def test_what_is_not_predicted_takes_no_time_and_is_named() -> None:
    made = events((LAUNCH, 8), (LAUNCH, 7), (LAUNCH, 9))
    made["programs"]["8"] = {**made["programs"]["7"], "name": "odd",
                             "card": {**made["programs"]["7"]["card"], "seconds": 0.0, "why": "because"}}  # fmt: skip
    made["programs"]["9"] = {**made["programs"]["7"], "name": "old", "card": None}
    found = [x for x in walk(made) if isinstance(x, Launched)]
    assert [(x.program, x.at, x.seconds) for x in found] == [("8", 0.0, 0.0), ("7", 0.0, 3e-6), ("9", 3e-6, 0.0)]
    assert unpredicted(made) == {"odd": "because", "old": unpredicted(made)["old"]}
    assert "so long ago" in unpredicted(made)["old"]


def test_bundles_that_overlap_have_rows_of_their_own() -> None:
    spans = [(0, 4), (4, 2), (1, 2), (3, 4), (2, 9), (6, 1)]
    rows = bundle_rows([{"start": start, "seconds": seconds} for start, seconds in spans])
    assert rows == [0, 0, 1, 1, 2, 0]
