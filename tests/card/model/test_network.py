"""Sums over cards against the wires' own arithmetic."""

from __future__ import annotations

import pytest

from habana_tf.card.model.network import BOX, FUSION_BYTES, exposed_seconds, sum_seconds
from habana_tf.hardware.chips import chip

GIB = 1 << 30


def test_a_box_of_eight_uses_all_its_inner_ports() -> None:
    """Each card sends 7/8 of the bytes twice, over seven links of one, three and three ports."""
    for name, bandwidth in (("gaudi", 7 * 12.5e9), ("gaudi2", 21 * 12.5e9), ("gaudi3", 21 * 25e9)):
        assert sum_seconds(chip(name), GIB, BOX, 0.0) == pytest.approx(2 * 7 / 8 * GIB / bandwidth)


def test_boxes_sum_an_eighth_each_over_three_ports() -> None:
    inside = sum_seconds(chip("gaudi2"), GIB, 8, 0.0)
    assert sum_seconds(chip("gaudi2"), GIB, 16, 0.0) == pytest.approx(inside + 2 * 1 / 2 * GIB / 8 / (3 * 12.5e9))
    assert sum_seconds(chip("gaudi2"), GIB, 256, 0.0) == pytest.approx(inside + 2 * 31 / 32 * GIB / 8 / (3 * 12.5e9))


def test_the_hosts_network_is_slower_and_one_card_needs_none() -> None:
    known = chip("gaudi2")
    assert sum_seconds(known, GIB, 32, 0.0, by_host=True) > 3 * sum_seconds(known, GIB, 32, 0.0)
    assert sum_seconds(known, GIB, 1, 1e-6) == 0.0


def test_what_goes_out_during_the_backward_pass_is_hidden() -> None:
    """Two full buffers: the first is summed long before the second is there."""
    known = chip("gaudi")
    one = sum_seconds(known, FUSION_BYTES, 8, 0.0)
    busy, alone = exposed_seconds(known, [(1.0, FUSION_BYTES), (2.0, FUSION_BYTES)], 8, 0.0)
    assert busy == pytest.approx(2 * one) and alone == pytest.approx(one)


def test_small_gradients_wait_for_each_other() -> None:
    known = chip("gaudi")
    ready = [(k * 0.1, FUSION_BYTES // 4) for k in range(4)]
    busy, alone = exposed_seconds(known, ready, 8, 1e-3)
    assert busy == pytest.approx(sum_seconds(known, FUSION_BYTES, 8, 1e-3)) and alone == pytest.approx(busy)
