"""Images without a download: scikit-learn's handwritten digits, enlarged; and TFRecord files of images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

TEST_IMAGES = 297


def digits(size: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """(images, labels) for training, 1,500, and for the test, 297.

    Images float32 [n, size, size, 3] about 0, enlarged from 8 x 8 by linear interpolation; labels int32 [n].
    """
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    at = np.clip((np.arange(size) + 0.5) * 8 / size - 0.5, 0, 7)
    low = np.minimum(at.astype(int), 6)
    weights = np.zeros((size, 8))
    weights[np.arange(size), low] = 1 - (at - low)
    weights[np.arange(size), low + 1] = at - low
    large = weights @ (data.images[order] / 8 - 1) @ weights.T
    images = np.repeat(large[..., None], 3, axis=-1).astype(np.float32)
    labels = data.target[order].astype(np.int32)
    return (images[TEST_IMAGES:], labels[TEST_IMAGES:]), (images[:TEST_IMAGES], labels[:TEST_IMAGES])


def batches(
    images: np.ndarray, labels: np.ndarray, batch: int, seed: int, shift: int
) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """step -> (images, labels) of a batch drawn for it, each image moved by up to `shift` pixels either way."""

    def at(step: int) -> tuple[np.ndarray, np.ndarray]:
        random = np.random.default_rng((seed, step))
        chosen = random.integers(0, len(images), batch)
        moves = random.integers(-shift, shift + 1, (batch, 2))
        moved = [np.roll(images[k], move, axis=(0, 1)) for k, move in zip(chosen, moves, strict=True)]
        return np.stack(moved), labels[chosen]

    return at


def write_records(folder: Path, images: np.ndarray, labels: np.ndarray, files: int = 2) -> None:
    """Writes images [n, size, size, 3] from -1 to 1 and their labels as PNG in TFRecord files, as ImageNet's."""
    import tensorflow as tf

    folder.mkdir(parents=True, exist_ok=True)
    for part in range(files):
        # Under another name until it is whole: what is there is read.
        path, partial = folder / f"train-{part:05d}-of-{files:05d}", folder / f"writing-{part}"
        with tf.io.TFRecordWriter(str(partial)) as writer:
            for image, label in zip(images[part::files], labels[part::files], strict=True):
                encoded = tf.io.encode_png(tf.cast(np.round((image + 1) * 127.5), tf.uint8)).numpy()
                feature = {
                    "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[encoded])),
                    "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(label) + 1])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
        partial.rename(path)


def read_records(folder: Path, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Images float32 [n, size, size, 3] from -1 to 1, resized if need be, and labels int32 [n] from 0 on."""
    import tensorflow as tf

    features = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    }

    def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        example = tf.io.parse_single_example(record, features)
        image = tf.io.decode_image(example["image/encoded"], channels=3, expand_animations=False)
        scaled = tf.image.resize(tf.cast(image, tf.float32) / 127.5 - 1, [size, size])
        return scaled, tf.cast(example["image/class/label"], tf.int32) - 1

    records = tf.data.TFRecordDataset(sorted(str(path) for path in folder.glob("train-*")))
    images, labels = zip(*records.map(parse).as_numpy_iterator(), strict=True)
    return np.stack(images), np.array(labels)
