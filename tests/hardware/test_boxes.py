"""Boxes and their names."""

from __future__ import annotations

import pytest

from habana_tf.hardware.boxes import box, boxes
from habana_tf.hardware.chips import chip, chips


def test_each_chip_has_a_usual_box_of_eight() -> None:
    assert {each.name: box(each).name for each in chips()} == {
        "gaudi": "HLS-1", "gaudi2": "HLS-Gaudi2", "gaudi3": "HLB-325"
    }  # fmt: skip
    assert all(box(each).cards == 8 for each in chips())


def test_ports_of_a_box_are_those_of_its_chip() -> None:
    for each in boxes():
        of = chip(each.chip)
        outside = of.ports if each.switched else len(of.external_ports)
        assert each.inside + outside == of.ports
        if each.name != "DL1":
            assert each.outside_bandwidth == outside * of.port_bandwidth


def test_a_box_of_another_chip_is_refused_with_the_names_there_are() -> None:
    assert box(chip("gaudi"), "hls-1h").cards == 4
    with pytest.raises(ValueError, match="no box of gaudi2 cards is called 'HLS-1H': use one of HLS-Gaudi2"):
        box(chip("gaudi2"), "HLS-1H")
