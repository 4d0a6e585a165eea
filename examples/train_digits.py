"""Learns to read handwritten digits on the simulated Gaudi.

    TF_RECIPE_CACHE_PATH=recipes python examples/train_digits.py

1,797 real images of 8 x 8 pixels come with scikit-learn: nothing is downloaded. The last batch of every epoch is
smaller than the others. Afterwards it prints the accuracy on images the network never saw, where the ops of its
graphs ran, and which recipes were compiled for them. A second run finds them all in the cache.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

import habana_tf
from habana_tf import cache
from habana_tf.cli.main import main as habana_tf_command
from habana_tf.distribute import HPUStrategy

BATCH = 64
HELD_OUT = 180  # images for validation, and as many for the test


def images() -> tuple[np.ndarray, np.ndarray]:
    """1,797 shuffled images [8, 8, 1] with values from 0 to 1, and their digits."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    return (data.images[order, :, :, None] / 16.0).astype(np.float32), data.target[order].astype(np.int64)


def network() -> tf.keras.Model:
    """A small convolutional network; its last layer gives one logit per digit."""
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Conv2D(32, 3, padding="same", use_bias=False),
            layers.BatchNormalization(momentum=0.9),
            layers.ReLU(),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", use_bias=False),
            layers.BatchNormalization(momentum=0.9),
            layers.ReLU(),
            layers.MaxPooling2D(),
            layers.Dropout(0.25),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(10),
        ]
    )


def tell_recipes() -> None:
    """Says what was compiled and what the cache saved, and lists the recipes."""
    counts = cache.stats().counts()
    cached = counts.disk_hits + counts.shared
    if counts.compiled:
        print(
            f"{counts.compiled} recipes were compiled in {counts.compile_seconds:.1f} s, {cached} came from the cache."
        )
    else:
        print(
            f"Nothing was compiled: all {cached} recipes came from the cache, which saved {counts.saved_seconds:.1f} s."
        )
    if os.environ.get("TF_RECIPE_CACHE_PATH"):
        habana_tf_command(["recipes", "list"])
    else:
        print("Set TF_RECIPE_CACHE_PATH to a directory to keep the recipes for the next run.")


def main() -> None:
    parser = argparse.ArgumentParser(description="Learns to read handwritten digits on the simulated Gaudi.")
    parser.add_argument("--epochs", type=int, default=12)
    epochs = parser.parse_args().epochs

    start = time.perf_counter()
    habana_tf.load_habana_module()
    tf.keras.utils.set_random_seed(1)
    x, y = images()
    test, validation, training = np.split(np.arange(len(x)), [HELD_OUT, 2 * HELD_OUT])

    strategy = HPUStrategy()
    with strategy.scope():
        model = network()
        model.compile(
            optimizer=tf.keras.optimizers.Adam(2e-3),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    model.fit(x[training], y[training], batch_size=BATCH, epochs=epochs, validation_data=(x[validation], y[validation]))
    _, accuracy = model.evaluate(x[test], y[test], batch_size=BATCH, verbose=0)
    seconds = time.perf_counter() - start

    print(f"\nTest accuracy: {accuracy:.1%} of {len(test)} images, after {seconds:.1f} s in all.\n")
    print(habana_tf.placement_report())
    tell_recipes()


if __name__ == "__main__":
    main()
