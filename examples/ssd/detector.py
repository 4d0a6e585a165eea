"""What a trained SSD finds in pictures: boxes, their files, their drawings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boxes as box
import numpy as np
import tensorflow as tf
from common import coco

Found = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Boxes [n, 4] in corners, classes [n] and scores [n]."""
DRAWN = 0.5  # the least score of a box that is drawn


class Detector:
    """Runs a network on pictures, `batch` at a time: one recipe for any number of them."""

    def __init__(self, run: Any, model: Any, defaults: np.ndarray, batch: int) -> None:
        self.strategy, self.model, self.defaults, self.batch = run.strategy, model, defaults, batch

    @tf.function
    def _predict(self, images: Any) -> Any:
        def work(x: Any) -> Any:
            offsets, logits = self.model(x, training=False)
            return offsets, tf.nn.softmax(logits)

        each = self.strategy.run(work, args=(images,))
        return [self.strategy.experimental_local_results(part)[0] for part in each]

    def find(self, images: np.ndarray) -> list[Found]:
        """images: float32 [n, size, size, 3] about 0."""
        found: list[Found] = []
        for first in range(0, len(images), self.batch):
            part = images[first : first + self.batch]
            filled = np.concatenate([part, np.zeros((self.batch - len(part), *part.shape[1:]), np.float32)])
            offsets, chances = (each.numpy()[: len(part)] for each in self._predict(tf.constant(filled)))
            found += [
                box.detections(box.decode(o, self.defaults), c) for o, c in zip(offsets, chances, strict=True)
            ]  # fmt: skip
        return found

    def infer(self, paths: list[Path], size: int, names: list[str], numbers: list[int], where: Path) -> str:
        """Writes `where`/detections.json, as COCO's results and with names, and a drawing of each image; says so.

        Raises ValueError for what is no image.
        """
        loaded = [coco.load(path, size) for path in paths]
        results = []
        where.mkdir(parents=True, exist_ok=True)
        for number, (path, (image, (height, width)), (boxes, kinds, scores)) in enumerate(
            zip(paths, loaded, self.find(np.stack([image for image, _ in loaded])), strict=True)
        ):
            scaled = boxes * np.array([height, width] * 2)
            for (top, left, bottom, right), kind, score in zip(scaled, kinds, scores, strict=True):
                results.append({
                    "image_id": number, "file_name": path.name, "category_id": numbers[kind], "category": names[kind],
                    "bbox": [round(float(v), 2) for v in (left, top, right - left, bottom - top)],
                    "score": round(float(score), 4),
                })  # fmt: skip
            draw(where / f"{number}_{path.stem}.png", image, boxes[scores >= DRAWN], kinds[scores >= DRAWN])
        (where / "detections.json").write_text(json.dumps(results, indent=1))
        sure = sum(each["score"] >= DRAWN for each in results)
        return f"{len(results)} detections in {len(paths)} images, {sure} with a score from {DRAWN} on: {where}"


def draw(path: Path, image: np.ndarray, boxes: np.ndarray, kinds: np.ndarray) -> None:
    """A picture about 0 with its boxes, each class in a colour of its own."""
    colors = np.random.default_rng(0).uniform(0, 255, (256, 3))[kinds % 256]
    with tf.device(coco.CPU):
        drawn = tf.image.draw_bounding_boxes(
            coco.pixels(image)[None].astype(np.float32), boxes[None].astype(np.float32), colors.astype(np.float32)
        )
    coco.save(path, drawn.numpy()[0].astype(np.uint8))
