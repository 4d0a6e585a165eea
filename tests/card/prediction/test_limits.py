"""What a step waits for, by hand: 106 ms on the cards for 32 examples on each of eight (see test_report)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from habana_tf.card.model.host import Host
from habana_tf.card.prediction.limits import card_bound
from habana_tf.card.prediction.prediction import Prediction
from tests.card.prediction.test_report import prediction

CARD = 0.106
NEEDED = 8 * 32 / CARD
"""Examples per second of one host."""


def fed(host: Host, cards: int = 8) -> Prediction:
    return replace(prediction(cards), fed_by=host)


def test_a_slow_input_bounds_the_step_and_the_cure_is_said() -> None:
    found = fed(Host(NEEDED / 3.5))
    assert found.input_bound and found.bound == "input"
    assert found.examples_per_second == pytest.approx(NEEDED / 3.5)
    assert found.parts["waiting for the host"] == pytest.approx(2.5 * CARD)
    assert found.limits.pipelines_needed == 4
    assert found.limits.fed_examples_per_second == pytest.approx(NEEDED) and found.limits.fed_bound == "compute"
    _, _, line, cure, *_ = found.text(120).splitlines()
    assert line == "bound by input: each host gives 690 examples/s (given) and its cards could take 2,415"
    assert cure == "would help: 4 such pipelines on each host; then 2,415 examples/s, bound by compute"


def test_loaders_are_counted_for_a_card_and_for_a_host() -> None:
    found = fed(Host(NEEDED / 8 / 5, loaders=2))
    assert found.input_bound and found.examples_per_second == pytest.approx(NEEDED * 2 / 5)
    assert "5 loader processes for each card instead of 2, 40 on each host" in " ".join(str(found).split())


def test_a_fast_input_changes_nothing_and_the_rate_to_give_is_said() -> None:
    plain, found = prediction(), fed(Host(3 * NEEDED))
    assert not found.input_bound and found.bound == plain.bound == "compute"
    assert found.step_seconds == plain.step_seconds == pytest.approx(CARD)
    assert "the input of each host must give 2,415 examples/s; it gives 7,245 (given)" in str(found)
    assert "bound by compute; the input of each host must give 2,415 examples/s" in str(plain)
    assert not any("waiting for the host" in line for line in str(found).splitlines())


def test_boxes_have_hosts_of_their_own() -> None:
    """32 cards are four boxes, each of which needs no more than one box alone."""
    one, four = fed(Host(NEEDED / 2), 8), fed(Host(NEEDED / 2), 32)
    assert four.examples_per_second == pytest.approx(4 * one.examples_per_second)
    assert fed(Host(NEEDED / 2), 2).input_bound is False, "two cards need a quarter of it"


def test_python_bounds_short_steps() -> None:
    found = fed(Host(python_seconds=0.2))
    assert (found.bound, found.input_bound) == ("Python", False) and found.step_seconds == 0.2
    both = fed(Host(NEEDED / 8, python_seconds=0.2))
    assert both.bound == "input" and both.limits.fed_bound == "Python"
    assert both.limits.fed_examples_per_second == pytest.approx(8 * 32 / 0.2)
    assert both.limits.pipelines_needed == 5, "8 halves of what 106 ms need, because Python takes 200"


def test_without_prefetch_times_add_and_it_is_advised() -> None:
    found = fed(Host(NEEDED, python_seconds=0.004, prefetch=False))
    assert found.step_seconds == pytest.approx(2 * CARD + 0.004)
    assert any("prefetch" in text for text in found.advice) and not any("prefetch" in t for t in prediction().advice)


def test_the_card_s_own_bounds() -> None:
    step = prediction().step
    assert card_bound(step) == "compute"
    assert card_bound(replace(step, copies=0.2)) == "PCIe"
    assert card_bound(replace(step, network_alone=0.2)) == "network"
    assert card_bound(replace(step, waiting=0.2)) == "waiting for cards"


def test_what_is_not_counted_follows_what_is_known() -> None:
    (nothing,), (all_of_it,) = prediction().not_counted, fed(Host(1e6)).not_counted
    assert "input pipeline" in nothing and "Python" in nothing and "compiling" in nothing
    assert "input pipeline" not in all_of_it and "Python" not in all_of_it and "compiling" in all_of_it
    (one,) = fed(Host()).not_counted
    assert "input pipeline" in one and "Python" not in one


def test_programs_and_pages_have_it_too() -> None:
    found = fed(Host(NEEDED / 3.5))
    data = json.loads(found.to_json())
    assert data["input_bound"] is True and data["bound"] == "input"
    assert data["limits"]["pipelines_needed"] == 4 and data["host"]["input_rate"] == NEEDED / 3.5
    assert json.loads(prediction().to_json())["host"]["input_rate"] is None
    assert "4 such pipelines" in found._repr_html_()
