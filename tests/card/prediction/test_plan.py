"""Rows of a plan, by hand: 32 examples on each of 8 cards in 106 ms (see tests/reports/samples.py)."""

from __future__ import annotations

import pytest

from habana_tf.card.prediction.plan import WATTS, Plan
from habana_tf.hardware.chips import chips
from tests.reports.samples import plan


def test_hours_and_energy_of_a_row() -> None:
    """30,000,000 examples at 2,415 a second are 3.45 hours, of 8 cards with 600 W."""
    row = plan().rows[0]
    assert row.examples_per_second == pytest.approx(8 * 32 / 0.106)
    assert row.hours == pytest.approx(30e6 / 2415.094 / 3600, rel=1e-6)
    assert row.kwh == pytest.approx(4.8 * 3.4505, rel=1e-3)
    assert row.kwh_per_million == pytest.approx(row.kwh / 30)
    assert row.global_batch == 256 and row.lost["network"] == pytest.approx(4 / 106)


def test_a_row_that_accumulates_and_waits_for_its_input() -> None:
    """Two hosts give 1,000 examples a second each."""
    row = plan().rows[1]
    assert row.examples_per_second == pytest.approx(2000) and row.limits.input_bound
    assert row.global_batch == 16 * 64 and row.times == "2 x 32"
    assert row.lost["host"] == pytest.approx(1 - 0.106 / 0.512)


def test_for_people_and_for_programs() -> None:
    found = plan()
    assert repr(found) == "<Plan: 8 hours: 8 x gaudi2, batch 32 each, bf16: 2,415 examples/s, 3.5 h>"
    lines = found.text(80).splitlines()
    assert lines[0] == found.summary() and max(map(len, lines)) <= 80
    assert any(line.split() == ["8", "x", "gaudi2", "32", "bf16", "2,415", "3.5", "h", "16.6", *line.split()[-3:]]
               for line in lines)  # fmt: skip
    assert "left out: gaudi, batch 32, fp32: needs 40.0 GiB" in found.text(80)
    data = found.to_dict()
    assert data["rows"][0]["kwh"] == found.rows[0].kwh and data["rows"][1]["accumulate"] == 2
    assert len(found) == 2 and next(iter(found)) is found.best()


def test_every_chip_has_its_power() -> None:
    """TDP is no less than what an idle card draws, nor than the limit that its firmware reports."""
    assert WATTS.keys() == {chip.name for chip in chips()}
    assert all(WATTS[chip.name] >= chip.power_cap_watts > chip.idle_watts for chip in chips())


def test_nothing_reaches_it() -> None:
    found = Plan(plan().target, (), ("too slow",))
    assert found.best() is None and str(found).startswith("nothing reaches 8 hours") and "too slow" in str(found)
