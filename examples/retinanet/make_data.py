"""Writes pictures of generated shapes as the TensorFlow Model Garden reads COCO: TFRecord files and annotations.

    python examples/retinanet/make_data.py shapes_data

`train-*` and `eval-*` are TFRecord files of `tf.train.Example`; `instances_eval.json` is what COCO's own metric
compares with. Needs TensorFlow, and neither HPU nor the Model Garden.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from common import coco
from common.shapes import pictures

SHARDS = 2  # files of a set, so that two workers have one each


def example(number: int, image: np.ndarray, boxes: np.ndarray, classes: np.ndarray) -> Any:
    """One picture. image: float32 [size, size, 3] about 0; boxes and classes: as in `coco.Wanted`."""
    height, width, _ = image.shape

    def text(*values: bytes) -> Any:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))

    def whole(*values: int) -> Any:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    feature = {
        "image/encoded": text(tf.io.encode_png(coco.pixels(image)).numpy()),
        "image/source_id": text(str(number).encode()),
        "image/height": whole(height),
        "image/width": whole(width),
        "image/object/class/label": whole(*classes),
        "image/object/is_crowd": whole(*[0] * len(classes)),
        "image/object/area": tf.train.Feature(float_list=tf.train.FloatList(value=coco.areas(boxes, height))),
    }
    for place, side in enumerate(("ymin", "xmin", "ymax", "xmax")):
        feature[f"image/object/bbox/{side}"] = tf.train.Feature(float_list=tf.train.FloatList(value=boxes[:, place]))
    return tf.train.Example(features=tf.train.Features(feature=feature))


def write(where: Path, name: str, count: int, size: int, seed: int) -> list[coco.Wanted]:
    """The TFRecord files of a set. Gives the boxes and classes of each picture."""
    images, _, boxes, classes = pictures(count, size, (seed,))
    wanted = [(b[c > 0], c[c > 0]) for b, c in zip(boxes, classes, strict=True)]
    for shard in range(SHARDS):
        with tf.io.TFRecordWriter(str(where / f"{name}-{shard:05d}-of-{SHARDS:05d}.tfrecord")) as file:
            for number in range(shard, count, SHARDS):
                file.write(example(number, images[number], *wanted[number]).SerializeToString())
    return wanted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--size", type=int, default=96, help="of a picture's side")
    parser.add_argument("--train", type=int, default=512, help="pictures to train on")
    parser.add_argument("--eval", type=int, default=64, help="pictures to evaluate on")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    write(options.directory, "train", options.train, options.size, options.seed)
    wanted = write(options.directory, "eval", options.eval, options.size, options.seed + 1)
    # Under another name: the Garden takes `eval*` for TFRecord files.
    (options.directory / "instances_eval.json").write_text(json.dumps(coco.annotations(wanted, options.size)))


if __name__ == "__main__":
    main()
