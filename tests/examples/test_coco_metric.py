"""The metric after COCO's definition, on cases that can be worked out by hand."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tests.examples.programs import EXAMPLES

sys.path.append(str(EXAMPLES / "ssd"))
from coco_metric import average_precisions, overlaps

BOX = np.array([[0.0, 0.0, 1.0, 1.0]])
FAR = np.array([[2.0, 2.0, 3.0, 3.0]])
ONE = np.array([1])


def test_overlaps() -> None:
    half = np.array([[0.0, 0.0, 1.0, 0.5], [0.0, 0.5, 1.0, 1.5], [2.0, 2.0, 3.0, 3.0]])
    assert overlaps(BOX, half)[0] == pytest.approx([0.5, 1 / 3, 0.0])


def test_all_found() -> None:
    told = average_precisions([(BOX, ONE, np.array([0.9]))], [(BOX, ONE)])
    assert told == {"mAP": 1.0, "mAP50": 1.0, "mAP75": 1.0}


def test_overlap_of_seven_tenths_counts_up_to_there() -> None:
    """At 0.5, 0.55, 0.6, 0.65 and not from 0.75 on; 0.72 counts at 0.7 too."""
    found = (np.array([[0.0, 0.0, 1.0, 0.72]]), ONE, np.array([0.9]))
    told = average_precisions([found], [(BOX, ONE)])
    assert told["mAP"] == pytest.approx(0.5) and told["mAP50"] == 1.0 and told["mAP75"] == 0.0


def test_a_false_one_before_the_right_one_halves_precision() -> None:
    found = (np.concatenate([FAR, BOX]), np.array([1, 1]), np.array([0.9, 0.8]))
    assert average_precisions([found], [(BOX, ONE)])["mAP"] == pytest.approx(0.5)


def test_a_second_detection_of_one_object_is_false_and_a_miss_ends_recall() -> None:
    """Two objects of which one is found, twice: precision 1 at the recalls 0, 0.01, ..., 0.5, which are 51 of 101."""
    found = (np.concatenate([BOX, BOX]), np.array([1, 1]), np.array([0.9, 0.8]))
    wanted = (np.concatenate([BOX, FAR]), np.array([1, 1]))
    assert average_precisions([found], [wanted])["mAP"] == pytest.approx(51 / 101)


def test_classes_count_alike_and_pictures_are_kept_apart() -> None:
    """Class 2 is looked for in the wrong picture."""
    found = [(BOX, ONE, np.array([0.9])), (BOX, np.array([2]), np.array([0.9]))]
    wanted = [(np.concatenate([BOX, BOX]), np.array([1, 2])), (np.zeros((0, 4)), np.zeros(0, int))]
    assert average_precisions(found, wanted)["mAP"] == pytest.approx(0.5)


def test_nothing_to_find_is_an_error() -> None:
    with pytest.raises(ValueError, match="no picture has an object"):
        average_precisions([(BOX, ONE, np.array([0.9]))], [(np.zeros((0, 4)), np.zeros(0, int))])
