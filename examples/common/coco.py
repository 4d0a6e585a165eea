"""Pictures with boxes as COCO lays them out: a json file of annotations beside a directory of images.

https://cocodataset.org/#format-data
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from common.shapes import CLASSES, pictures

Wanted = tuple[np.ndarray, np.ndarray]
"""Boxes float32 [objects, 4], (top, left, bottom, right) in parts of the picture, and classes int32 [objects]."""
CPU = "/CPU:0"  # images are read on the host


def pixels(images: np.ndarray) -> np.ndarray:
    """Images about 0 as bytes."""
    return np.clip(np.round(images * 50 + 128), 0, 255).astype(np.uint8)


def areas(boxes: np.ndarray, size: int) -> np.ndarray:
    """In pixels, of boxes in parts of a square picture."""
    return np.asarray((boxes[:, 2:] - boxes[:, :2]).prod(1) * size**2)


def annotations(wanted: list[Wanted], size: int) -> dict[str, Any]:
    """COCO's description of square pictures, each with its place for an id."""
    objects: list[dict[str, Any]] = []
    for number, (boxes, classes) in enumerate(wanted):
        for (top, left, bottom, right), kind, area in zip(boxes, classes, areas(boxes, size), strict=True):
            corner = [float(value) * size for value in (left, top, right - left, bottom - top)]
            objects.append({"id": len(objects) + 1, "image_id": number, "category_id": int(kind), "iscrowd": 0,
                            "bbox": corner, "area": float(area)})  # fmt: skip
    return {
        "images": [{"id": k, "file_name": f"{k:012d}.png", "height": size, "width": size} for k in range(len(wanted))],
        "annotations": objects,
        "categories": [{"id": kind, "name": name} for kind, name in enumerate(CLASSES) if kind],
    }


def write(where: Path, name: str, count: int, size: int, seed: int) -> None:
    """Writes generated shapes: `where`/annotations/instances_`name`.json and `where`/`name`/*.png."""
    images, _, boxes, classes = pictures(count, size, (seed,))
    told = annotations([(b[c > 0], c[c > 0]) for b, c in zip(boxes, classes, strict=True)], size)
    for folder in (where / "annotations", where / name):
        folder.mkdir(parents=True, exist_ok=True)
    for entry, image in zip(told["images"], pixels(images), strict=True):
        save(where / name / entry["file_name"], image)
    (where / "annotations" / f"instances_{name}.json").write_text(json.dumps(told))


def save(path: Path, image: np.ndarray) -> None:
    """An image of bytes, as PNG."""
    with tf.device(CPU):
        path.write_bytes(tf.io.encode_png(image).numpy())


def load(path: Path, size: int) -> tuple[np.ndarray, tuple[int, int]]:
    """An image file (JPEG, PNG, BMP, GIF), float32 [size, size, 3] about 0, and the height and width it has."""
    with tf.device(CPU):
        try:
            image = tf.io.decode_image(path.read_bytes(), channels=3, expand_animations=False)
        except tf.errors.InvalidArgumentError as error:
            raise ValueError(f"{path} is not an image that TensorFlow reads: {error.message}") from error
        small = tf.image.resize(tf.cast(image, tf.float32), (size, size), antialias=True)
        return ((small - 128) / 50).numpy(), (int(image.shape[0]), int(image.shape[1]))


class Picture(NamedTuple):
    """One picture of a set, not yet read."""

    number: int
    path: Path
    boxes: np.ndarray
    classes: np.ndarray


class Set:
    """A set of a COCO directory: `annotations/instances_NAME*.json`, its images in the directory of that NAME.

    names: of the classes, background first; numbers: COCO's ids of the classes in the same order. Crowds are left out.
    Raises ValueError where there is no such set, or more than one.
    """

    def __init__(self, directory: Path, name: str) -> None:
        files = sorted((directory / "annotations").glob(f"instances_{name}*.json"))
        if len(files) != 1:
            told = ", ".join(each.name for each in files) or "none"
            raise ValueError(f"{directory}/annotations should have one file instances_{name}*.json, and has {told}")
        images = directory / files[0].stem.removeprefix("instances_")
        told = json.loads(files[0].read_text())
        kinds = sorted(told["categories"], key=lambda each: each["id"])
        self.names = ["background", *(each["name"] for each in kinds)]
        self.numbers = [0, *(each["id"] for each in kinds)]
        places = {number: place for place, number in enumerate(self.numbers)}
        objects: dict[int, list[tuple[list[float], int]]] = {}
        for each in told["annotations"]:
            if not each.get("iscrowd") and min(each["bbox"][2:]) > 0:
                objects.setdefault(each["image_id"], []).append((each["bbox"], places[each["category_id"]]))
        self.pictures = []
        for entry in told["images"]:
            mine = objects.get(entry["id"], [])
            corner = np.array([box for box, _ in mine], np.float32).reshape(-1, 4)
            corner /= np.array([entry["width"], entry["height"]] * 2, np.float32)
            boxes = np.concatenate([corner[:, 1::-1], corner[:, 1::-1] + corner[:, :1:-1]], 1)
            kinds_of = np.array([kind for _, kind in mine], np.int32)
            self.pictures.append(Picture(entry["id"], images / entry["file_name"], boxes, kinds_of))

    def batch(self, step: int, count: int, size: int, seed: int) -> tuple[np.ndarray, list[Wanted]]:
        """The pictures of a training step, the same for the same numbers: all with objects, in a new order every epoch.

        Half of them are mirrored. Gives float32 [count, size, size, 3] and what is in each.
        """
        usable = [each for each in self.pictures if len(each.classes)]
        images, wanted = [], []
        for place in range(step * count, (step + 1) * count):
            epoch, within = divmod(place, len(usable))
            chosen = usable[np.random.default_rng((seed, epoch)).permutation(len(usable))[within]]
            image, _ = load(chosen.path, size)
            boxes = chosen.boxes
            if np.random.default_rng((seed, 1, place)).random() < 0.5:
                image, boxes = image[:, ::-1], np.stack([boxes[:, 0], 1 - boxes[:, 3], boxes[:, 2], 1 - boxes[:, 1]], 1)
            images.append(image)
            wanted.append((boxes, chosen.classes))
        return np.stack(images), wanted
