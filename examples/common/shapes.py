"""Pictures of generated shapes, with what detection and segmentation should find in them."""

from __future__ import annotations

import numpy as np

CLASSES = ("background", "disc", "square", "triangle")
MOST = 4  # shapes in a picture


def picture(size: int, seed: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """One picture, the same for the same seed.

    Gives the image, float32 [size, size, 3] about 0 with noise; the class of each pixel, int32 [size, size]; boxes,
    float32 [MOST, 4] as (top, left, bottom, right) in parts of the size, zeros after the last; their classes, int32
    [MOST], 0 after the last. A shape may cover others, which are then smaller or gone from the pixels; boxes overlap
    by no more than a third of the smaller one.
    """
    random = np.random.default_rng(seed)
    image = random.normal(0, 0.2, (size, size, 3)) + random.uniform(-0.3, 0.3, 3)
    pixels = np.zeros((size, size), np.int32)
    boxes, classes = np.zeros((MOST, 4), np.float32), np.zeros(MOST, np.int32)
    y, x = np.mgrid[:size, :size] + 0.5
    found = 0
    for _ in range(random.integers(1, MOST + 1)):
        half = random.uniform(0.1, 0.22) * size
        middle_y, middle_x = random.uniform(half, size - half, 2)
        box = np.array([middle_y - half, middle_x - half, middle_y + half, middle_x + half]) / size
        if any(_covered(box, other) > 1 / 3 for other in boxes[:found]):
            continue
        kind = int(random.integers(1, len(CLASSES)))
        dy, dx = y - middle_y, x - middle_x
        if kind == 1:
            inside = dy**2 + dx**2 < half**2
        elif kind == 2:
            inside = np.maximum(abs(dy), abs(dx)) < half
        else:
            inside = (abs(dy) < half) & (abs(dx) < (dy + half) / 2)
        image[inside] += random.choice([-1, 1]) * random.uniform(0.6, 1.2, 3)
        pixels[inside] = kind
        boxes[found], classes[found] = box, kind
        found += 1
    return image.astype(np.float32), pixels, boxes, classes


def _covered(a: np.ndarray, b: np.ndarray) -> float:
    """The common part of two boxes, as a part of the smaller one."""
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    if (sides <= 0).any():
        return 0.0
    return float(sides.prod() / min((a[2:] - a[:2]).prod(), (b[2:] - b[:2]).prod()))


def pictures(count: int, size: int, seed: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Several pictures, each part as `picture` gives it with an axis before."""
    made = [picture(size, (*seed, k)) for k in range(count)]
    images, pixels, boxes, classes = zip(*made, strict=True)
    return np.stack(images), np.stack(pixels), np.stack(boxes), np.stack(classes)
