"""Default boxes of an SSD: where they are, what each should find, and boxes from what was found. In NumPy."""

from __future__ import annotations

import numpy as np
from coco_metric import overlaps

VARIANCES = np.array([0.1, 0.1, 0.2, 0.2], np.float32)  # of SSD (arXiv 1512.02325), as its code has them
RATIOS = (1.0, 2.0, 0.5)
PER_CELL = len(RATIOS) + 1


def default_boxes(grids: list[int], smallest: float = 0.2, largest: float = 0.5) -> np.ndarray:
    """float32 [boxes, 4] as (middle y, middle x, height, width) in parts of the picture.

    grids: cells along a side, per level. Sizes rise evenly over the levels; each cell has a square between its level's
    size and the next one's too.
    """
    sizes = np.linspace(smallest, largest, len(grids) + 1)
    out = []
    for k, cells in enumerate(grids):
        shapes = [(sizes[k] / r**0.5, sizes[k] * r**0.5) for r in RATIOS] + [((sizes[k] * sizes[k + 1]) ** 0.5,) * 2]
        out += [
            ((row + 0.5) / cells, (column + 0.5) / cells, *shape)
            for row in range(cells)
            for column in range(cells)
            for shape in shapes
        ]
    return np.array(out, np.float32)


def corners(boxes: np.ndarray) -> np.ndarray:
    """(middle y, middle x, height, width) -> (top, left, bottom, right)."""
    return np.concatenate([boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2], -1)


def encode(boxes: np.ndarray, classes: np.ndarray, defaults: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What each default box should give: offsets float32 [defaults, 4], class int32 [defaults], 0 for background.

    boxes: [objects, 4] in corners, classes: [objects], without padding. A default box takes the object that it overlaps
    most, if by half; each object has at least the default box that overlaps it most.
    """
    if not len(boxes):
        return np.zeros((len(defaults), 4), np.float32), np.zeros(len(defaults), np.int32)
    shared = overlaps(boxes, corners(defaults))
    shared[np.arange(len(boxes)), shared.argmax(1)] = 2
    mine = shared.argmax(0)
    taken = shared.max(0) >= 0.5
    of = boxes[mine]
    middle, sides = (of[:, :2] + of[:, 2:]) / 2, of[:, 2:] - of[:, :2]
    offsets = np.concatenate([(middle - defaults[:, :2]) / defaults[:, 2:], np.log(sides / defaults[:, 2:])], 1)
    return (offsets / VARIANCES).astype(np.float32), np.where(taken, classes[mine], 0).astype(np.int32)


def decode(offsets: np.ndarray, defaults: np.ndarray) -> np.ndarray:
    """Offsets [defaults, 4] -> boxes in corners [defaults, 4], within the picture."""
    moved = offsets * VARIANCES
    middle = moved[:, :2] * defaults[:, 2:] + defaults[:, :2]
    sides = np.exp(np.minimum(moved[:, 2:], 5)) * defaults[:, 2:]
    return np.clip(corners(np.concatenate([middle, sides], 1)), 0, 1)


def detections(
    boxes: np.ndarray, chances: np.ndarray, least: float = 0.05, overlap: float = 0.5, most: int = 100
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boxes [n, 4], classes [n] from 1 on and scores [n], the surest first; of overlapping ones of a class the surest.

    boxes: [defaults, 4] in corners, chances: [defaults, classes], the first class is background.
    """
    found: list[tuple[float, int, int]] = []
    for kind in range(1, chances.shape[1]):
        order = np.argsort(-chances[:, kind], kind="stable")[: 2 * most]
        order = order[chances[order, kind] > least]
        while len(order):
            best, order = order[0], order[1:]
            found.append((float(chances[best, kind]), int(best), kind))
            order = order[overlaps(boxes[best][None], boxes[order])[0] <= overlap]
    found = sorted(found, key=lambda each: -each[0])[:most]
    places = [place for _, place, _ in found]
    kinds, scores = np.array([kind for *_, kind in found], np.int32), np.array([each[0] for each in found])
    return boxes[places].reshape(-1, 4), kinds, scores
