"""Targets as people write them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from habana_tf.card.prediction.target import target


@pytest.mark.parametrize(
    "text, rate",
    [("10000 examples/s", 1e4), ("10,000 images / second", 1e4), (" 2.5 sequences per s", 2.5), ("7/s", 7)],
)
def test_rates(text: str, rate: float) -> None:
    assert target(text, None, 1).rate == rate and target(text, None, 1).hours(rate) is None
    assert target(text, 36_000, 2).hours(rate) == pytest.approx(20 / rate)


@pytest.mark.parametrize("text, hours", [("8 hours", 8), ("1h", 1), ("90 min", 1.5), ("2 days", 48), ("0.5 h", 0.5)])
def test_times(text: str, hours: float) -> None:
    """They are met by the rate that reaches the end then."""
    found = target(text, 1000, 90)
    assert found.rate == pytest.approx(90_000 / (hours * 3600))
    assert found.hours(found.rate) == pytest.approx(hours)


@pytest.mark.parametrize(
    "text",
    ["", "fast", "10 parsecs", "10 examples", "-3 hours", "0 hours", "1.2.3 h", ",. h", "8 hours more", 8, None],
)
def test_what_is_no_target(text: Any) -> None:
    with pytest.raises(ValueError, match="write it like"):
        target(text, 1000, 1)


def test_a_time_needs_to_know_how_much() -> None:
    with pytest.raises(ValueError, match="needs dataset_size="):
        target("8 hours", None, 3)
    for size, epochs in ((0, 1), (10, 0), (10, -1)):
        with pytest.raises(ValueError, match="how many examples"):
            target("8 hours", size, epochs)
    assert math.isclose(target("1 h", 3600, 0.5).rate, 0.5)
