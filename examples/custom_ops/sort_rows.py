"""An op of one's own by a kernel in C: rows that are sorted, with a gradient, in a training step.

    habana-tf build-kernel examples/custom_ops/sort_rows.c -o sort_rows.so
    python examples/custom_ops/sort_rows.py sort_rows.so

A small network turns noise into points on a ring. Its loss is the sliced Wasserstein distance: points of both kinds are
projected on random directions, and along each the sorted projections should be alike. The sorting is what no primitive
says as the kernel does, by a network of comparisons; what is around it is compiled and fused as always.
"""

from __future__ import annotations

import argparse

import numpy as np
import tensorflow as tf

import habana_tf

POINTS, DIRECTIONS = 256, 32


def ring(rng: np.random.Generator, points: int) -> np.ndarray:
    """Points [n, 2] at a distance of about 1 from the centre."""
    angle, radius = rng.uniform(0, 2 * np.pi, points), rng.normal(1, 0.05, points)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).astype("float32")


def main() -> None:
    parser = argparse.ArgumentParser(description="Learns a ring of points by sorting their projections.")
    parser.add_argument("library", help="what habana-tf build-kernel made of sort_rows.c")
    parser.add_argument("--steps", type=int, default=400)
    arguments = parser.parse_args()

    habana_tf.load_habana_module()
    sort_rows = habana_tf.load_op_library(arguments.library).sort_rows

    @tf.RegisterGradient("SortRows")
    def _(op, dsorted, dplaces):
        """What belongs to a sorted number belongs to where it came from: the inverse of a permutation sorts it."""
        _, inverse = sort_rows(tf.cast(op.outputs[1], tf.float32))
        return tf.gather(dsorted, inverse, batch_dims=1)

    tf.keras.utils.set_random_seed(1)
    rng = np.random.default_rng(1)
    with tf.device("/HPU:0"):
        layers = tf.keras.layers
        model = tf.keras.Sequential(
            [layers.Input((8,)), layers.Dense(64, "relu"), layers.Dense(64, "relu"), layers.Dense(2)]
        )
        optimizer = tf.keras.optimizers.Adam(3e-3)

        @tf.function
        def step(noise, real, directions):
            with tf.GradientTape() as tape:
                made, _ = sort_rows(tf.matmul(directions, model(noise), transpose_b=True))
                wanted, _ = sort_rows(tf.matmul(directions, real, transpose_b=True))
                loss = tf.reduce_mean(tf.square(made - wanted))
            optimizer.apply_gradients(
                zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
            )
            return loss

        losses = []
        for _ in range(arguments.steps):
            noise = rng.normal(size=(POINTS, 8)).astype("float32")
            directions = rng.normal(size=(DIRECTIONS, 2)).astype("float32")
            directions /= np.linalg.norm(directions, axis=1, keepdims=True)
            losses.append(float(step(noise, ring(rng, POINTS), directions)))
        made = np.linalg.norm(model(rng.normal(size=(1000, 8)).astype("float32")), axis=1)
    print(habana_tf.placement_report())
    print(f"Distance: {np.mean(losses[:10]):.3f} at first, {np.mean(losses[-10:]):.4f} at last")
    print(f"The points made are {made.mean():.2f} +- {made.std():.2f} from the centre")


if __name__ == "__main__":
    main()
