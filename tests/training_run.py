"""Trains the demo's network for some steps and saves what happened: `python -m tests.training_run hpu 20 result.npz`.

The device is "hpu" or "stock"; the steps, the weights, the batches and the seed are the same for both. Saved are the
loss of every step, and the gradients of the first one by name.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
from train_digits import BATCH, images, network


def main(device: str, steps: int, path: str) -> None:
    strategy = tf.distribute.get_strategy()
    if device == "hpu":
        from habana_tf.distribute import HPUStrategy

        strategy = HPUStrategy()
    tf.keras.utils.set_random_seed(3)
    with strategy.scope():
        model = network()
        optimizer = tf.keras.optimizers.Adam(2e-3)
        optimizer.build(model.trainable_variables)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")

    def step(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True)) / BATCH
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss, gradients

    @tf.function
    def run(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        return strategy.run(step, args=(x, y))

    x, y = images()
    losses, first = [], {}
    for number in range(steps):
        start = number * BATCH
        loss, gradients = run(tf.constant(x[start : start + BATCH]), tf.constant(y[start : start + BATCH]))
        losses.append(float(loss))
        if number == 0:
            names = [f"gradient {k} {v.name}" for k, v in enumerate(model.trainable_variables)]
            first = {name: np.asarray(g) for name, g in zip(names, gradients, strict=True)}
    np.savez(path, losses=np.array(losses), **first)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
