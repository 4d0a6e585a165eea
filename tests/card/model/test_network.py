"""Sums over cards against the wires' own arithmetic."""

from __future__ import annotations

import pytest

from habana_tf.card.model.network import FUSION_BYTES, exposed_seconds, slowest, sum_seconds
from habana_tf.card.model.parameters import FITTED
from habana_tf.hardware.boxes import box
from habana_tf.hardware.chips import chip

GIB = 1 << 30


def test_a_box_of_eight_uses_all_its_inner_ports() -> None:
    """Each card sends 7/8 of the bytes twice, over seven links of one, three and three ports."""
    for name, bandwidth in (("gaudi", 7 * 12.5e9), ("gaudi2", 21 * 12.5e9), ("gaudi3", 21 * 25e9)):
        assert sum_seconds(chip(name), box(chip(name)), GIB, 8, 0.0) == pytest.approx(2 * 7 / 8 * GIB / bandwidth)


def test_boxes_sum_an_eighth_each_over_three_ports() -> None:
    inside = sum_seconds(chip("gaudi2"), box(chip("gaudi2")), GIB, 8, 0.0)
    assert sum_seconds(chip("gaudi2"), box(chip("gaudi2")), GIB, 16, 0.0) == pytest.approx(
        inside + 2 * 1 / 2 * GIB / 8 / (3 * 12.5e9)
    )
    assert sum_seconds(chip("gaudi2"), box(chip("gaudi2")), GIB, 256, 0.0) == pytest.approx(
        inside + 2 * 31 / 32 * GIB / 8 / (3 * 12.5e9)
    )


def test_a_dl1_talks_to_others_over_its_own_network_and_one_card_needs_none() -> None:
    known = chip("gaudi")
    dl1, hls = box(known, "DL1"), box(known, "hls-1")
    assert sum_seconds(known, dl1, GIB, 8, 0.0) == sum_seconds(known, hls, GIB, 8, 0.0)
    between = 2 * 3 / 4 * GIB / 8
    assert sum_seconds(known, dl1, GIB, 32, 0.0) - sum_seconds(known, hls, GIB, 32, 0.0) == pytest.approx(
        between / (50e9 / 8) - between / (3 * 12.5e9)
    )
    assert sum_seconds(known, dl1, GIB, 1, 1e-6) == 0.0


def test_cards_of_an_hls_1h_meet_in_a_switch_over_ten_ports() -> None:
    known = chip("gaudi")
    for cards in (4, 8, 64):
        want = 2 * (cards - 1) / cards * GIB / (10 * 12.5e9)
        assert sum_seconds(known, box(known, "HLS-1H"), GIB, cards, 0.0) == pytest.approx(want)


def test_an_all_gather_as_published_for_gaudi3() -> None:
    """16 MiB of each of eight cards in 0.2306 ms: half of a sum of eight times as many bytes."""
    took = sum_seconds(chip("gaudi3"), box(chip("gaudi3")), 8 * 16 << 20, 8, FITTED.launch) / 2
    assert took == pytest.approx(0.2306e-3, rel=0.05)


def test_cards_wait_longer_for_the_slowest_of_many() -> None:
    assert slowest(1) == 0.0 and slowest(8) == pytest.approx(2.04, rel=0.01)
    assert slowest(4096) == pytest.approx(2 * slowest(8))


def test_what_goes_out_during_the_backward_pass_is_hidden() -> None:
    """Two full buffers: the first is summed long before the second is there."""
    known = chip("gaudi")
    one = sum_seconds(known, box(known), FUSION_BYTES, 8, 0.0)
    busy, alone = exposed_seconds(known, box(known), [(1.0, FUSION_BYTES), (2.0, FUSION_BYTES)], 8, 0.0)
    assert busy == pytest.approx(2 * one) and alone == pytest.approx(one)


def test_small_gradients_wait_for_each_other() -> None:
    known = chip("gaudi")
    ready = [(k * 0.1, FUSION_BYTES // 4) for k in range(4)]
    busy, alone = exposed_seconds(known, box(known), ready, 8, 1e-3)
    assert busy == pytest.approx(sum_seconds(known, box(known), FUSION_BYTES, 8, 1e-3)) and alone == pytest.approx(busy)
