"""The metric after COCO's definition, on cases that can be worked out by hand, and beside COCO's own program."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


SIZE = 32  # whole pixels, so that areas and overlaps are the same numbers in both programs


@st.composite
def boxes(draw: Any, most: int) -> np.ndarray:
    """Some boxes, [n, 4]: few places, so that they overlap by much, and alike."""
    count = draw(st.integers(0, most))
    numbers = st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(1, 12), st.integers(1, 12))
    drawn = np.array(draw(st.lists(numbers, min_size=count, max_size=count)), float).reshape(-1, 4)
    return np.concatenate([drawn[:, :2], drawn[:, :2] + drawn[:, 2:]], 1)


@st.composite
def evaluations(draw: Any) -> tuple[list[Any], list[Any]]:
    """Detections and objects of a few pictures; scores of a few values, so that some are equal; two classes."""
    found: list[Any] = []
    wanted: list[Any] = []
    for _ in range(draw(st.integers(1, 3))):
        for kept, most in ((found, 12), (wanted, 6)):
            places = draw(boxes(most))
            count = len(places)
            kinds = np.array(draw(st.lists(st.integers(1, 2), min_size=count, max_size=count)), int)
            kept.append((places, kinds))
            if kept is found:
                scores = draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
                kept[-1] += (np.array(scores, float) / 10,)
    if not any(len(kinds) for _, kinds in wanted):
        wanted[0] = (BOX * 4, ONE)
    return found, wanted


def of_pycocotools(found: list[Any], wanted: list[Any]) -> dict[str, float]:
    """The same by COCO's own program."""
    absent = "pycocotools is not in this environment: make dev"
    api = pytest.importorskip("pycocotools.coco", reason=absent)
    judge_of = pytest.importorskip("pycocotools.cocoeval", reason=absent).COCOeval

    def entry(number: int, box: np.ndarray, kind: int) -> dict[str, Any]:
        top, left, bottom, right = box.tolist()
        return {"image_id": number, "category_id": int(kind), "bbox": [left, top, right - left, bottom - top]}

    truth = api.COCO()
    objects = [entry(number, *each) for number, parts in enumerate(wanted) for each in zip(*parts, strict=True)]
    for number, each in enumerate(objects):
        each |= {"id": number + 1, "iscrowd": 0, "area": each["bbox"][2] * each["bbox"][3]}
    truth.dataset = {
        "images": [{"id": k, "height": SIZE, "width": SIZE} for k in range(len(wanted))],
        "annotations": objects, "categories": [{"id": 1}, {"id": 2}], "info": {},
    }  # fmt: skip
    results = [
        {**entry(number, box, kind), "score": score}
        for number, parts in enumerate(found)
        for box, kind, score in zip(*parts, strict=True)
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        if not results:
            return {"mAP": 0.0, "mAP50": 0.0, "mAP75": 0.0}  # loadRes refuses an empty list
        judge = judge_of(truth, truth.loadRes(results), "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return dict(zip(("mAP", "mAP50", "mAP75"), judge.stats, strict=False))


@given(evaluations())
def test_as_pycocotools(drawn: tuple[list[Any], list[Any]]) -> None:
    """To 1e-9: both divide the same whole numbers."""
    assert average_precisions(*drawn) == pytest.approx(of_pycocotools(*drawn), abs=1e-9)


def test_as_pycocotools_when_two_objects_overlap_a_detection_alike() -> None:
    """Which of them it takes decides whether the next detection finds one."""
    true = np.array([[0.0, 0.0, 4.0, 4.0], [0.0, 2.0, 4.0, 6.0]])
    found = (np.array([[0.0, 1.0, 4.0, 5.0], [0.0, 2.0, 4.0, 6.0]]), np.array([1, 1]), np.array([0.9, 0.8]))
    drawn = [found], [(true, np.array([1, 1]))]
    assert average_precisions(*drawn) == pytest.approx(of_pycocotools(*drawn), abs=1e-9)


def test_as_pycocotools_on_many_detections() -> None:
    """Recalls that are 0.29 by division, and more than a hundred detections of a class."""
    random = np.random.default_rng(0)
    corner = random.integers(0, 200, (150, 2)).astype(float)
    true = np.concatenate([corner, corner + random.integers(5, 30, (150, 2))], 1)[:100]
    guesses = np.concatenate([true + random.integers(0, 3, true.shape), true[:50] + 3.0])
    kinds = np.ones(150, int)
    drawn = ([(guesses, kinds, random.permutation(150) / 150)], [(true, kinds[:100])])
    assert average_precisions(*drawn) == pytest.approx(of_pycocotools(*drawn), abs=1e-9)
