"""Mean average precision as COCO defines it (https://cocodataset.org/#detection-eval), in NumPy.

For each class and each overlap from 0.5 to 0.95 in steps of 0.05: detections of all pictures are taken from the surest
down, each takes the free object it overlaps most, if by enough, and else is false. Precision, made not to rise with
recall, is averaged at the 101 recalls 0, 0.01, ..., 1. Without crowds and ranges of areas; otherwise its numbers are
those of `pycocotools` (tests/examples/test_coco_metric.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

OVERLAPS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0, 1, 101)
MOST = 100  # detections of a class in a picture that count

Boxes = np.ndarray


def overlaps(a: Boxes, b: Boxes) -> np.ndarray:
    """Intersection over union of boxes [n, 4] and [m, 4], (top, left, bottom, right): [n, m]."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    common = np.clip(high - low, 0, None).prod(-1)
    areas = [np.clip(each[:, 2:] - each[:, :2], 0, None).prod(-1) for each in (a, b)]
    return np.asarray(common / np.maximum(areas[0][:, None] + areas[1][None] - common, 1e-12))


def average_precisions(
    found: Sequence[tuple[Boxes, np.ndarray, np.ndarray]], wanted: Sequence[tuple[Boxes, np.ndarray]]
) -> dict[str, float]:
    """{"mAP": over all overlaps, "mAP50": at 0.5, "mAP75": at 0.75}, each the mean over the classes there are.

    found: of each picture boxes [n, 4], classes [n] and scores [n]; wanted: boxes [m, 4] and classes [m]. Raises
    ValueError where the numbers of pictures differ or there is no object.
    """
    if len(found) != len(wanted):
        raise ValueError(f"detections of {len(found)} pictures, objects of {len(wanted)}")
    classes = sorted({int(c) for _, kinds in wanted for c in kinds})
    if not classes:
        raise ValueError("no picture has an object")
    table = np.array([[_precision(found, wanted, c, least) for least in OVERLAPS] for c in classes])
    means = table.mean(0)
    return {"mAP": float(means.mean()), "mAP50": float(means[0]), "mAP75": float(means[5])}


def _precision(
    found: Sequence[tuple[Boxes, np.ndarray, np.ndarray]], wanted: Sequence[tuple[Boxes, np.ndarray]],
    kind: int, least: float,
) -> float:  # fmt: skip
    """Of one class at one overlap."""
    scores, right, objects = [], [], 0
    for (boxes, kinds, sure), (true_boxes, true_kinds) in zip(found, wanted, strict=True):
        order = np.argsort(-sure, kind="stable")
        order = order[kinds[order] == kind][:MOST]
        true = true_boxes[true_kinds == kind]
        objects += len(true)
        free = np.ones(len(true), bool)
        shared = overlaps(boxes[order], true)
        for row, k in enumerate(order):
            open_to = np.where(free, shared[row], -1.0)
            # Of equal overlaps the last, as COCO's program does.
            best = len(true) - 1 - int(open_to[::-1].argmax()) if len(true) else -1
            hit = best >= 0 and open_to[best] >= least
            if hit:
                free[best] = False
            scores.append(sure[k])
            right.append(hit)
    if not scores:
        return 0.0
    hits = np.array(right)[np.argsort(-np.array(scores), kind="stable")]
    true_so_far = hits.cumsum()
    precision = true_so_far / np.arange(1, len(hits) + 1)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    places = np.searchsorted(true_so_far / objects, RECALLS)
    return float(np.append(precision, 0.0)[np.minimum(places, len(precision))].mean())
