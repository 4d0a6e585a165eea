"""One training run that a single process, HPUStrategy and Horovod do alike: a convolutional network, SGD, 50 steps.

The script's first argument says who trains: `stock PARTS` in one process on the CPU with the gradients of PARTS equal
parts of each batch averaged, `strategy` or `horovod` as one of several workers on HPU. It reports the averaged
gradients of the first step, all weights after the last one, launches and exchanges per step, and recipe counts.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

STEPS = 50
BATCH = 32
LEARNING_RATE = 0.05
SHAPE = (12, 12, 3)


def examples() -> tuple[np.ndarray, np.ndarray]:
    """Images (STEPS, BATCH, *SHAPE) and classes (STEPS, BATCH)."""
    numbers = np.random.default_rng(5)
    images = numbers.normal(size=(STEPS, BATCH, *SHAPE)).astype(np.float32)
    return images, (images.mean(axis=(2, 3, 4)) > 0).astype(np.int64) + (images[:, :, 0, 0, 0] > 0.5)


def network() -> Any:
    """The network with fixed initial weights."""
    import tensorflow as tf

    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Input(SHAPE), layers.Conv2D(8, 3, activation="tanh"), layers.Conv2D(8, 3, activation="tanh"),
            layers.GlobalAveragePooling2D(), layers.Dense(16, activation="tanh"), layers.Dense(3),
        ]
    )  # fmt: skip
    numbers = np.random.default_rng(6)
    model.set_weights([numbers.normal(size=w.shape, scale=0.3).astype(np.float32) for w in model.get_weights()])
    return model


def loss(model: Any, x: Any, y: Any) -> Any:
    """The mean cross entropy of a batch, or of a part of one."""
    import tensorflow as tf

    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True)))


def train_stock(parts: int) -> dict[str, Any]:
    """In one process, on the CPU."""
    import tensorflow as tf

    model = network()
    optimizer = tf.keras.optimizers.SGD(LEARNING_RATE)

    @tf.function
    def gradients(x: Any, y: Any) -> Any:
        found = []
        for part in range(parts):
            with tf.GradientTape() as tape:
                mine = slice(part * BATCH // parts, (part + 1) * BATCH // parts)
                value = loss(model, x[mine], y[mine])
            found.append(tape.gradient(value, model.trainable_variables))
        return [tf.add_n(each) / parts for each in zip(*found, strict=True)]

    images, classes = examples()
    first = None
    for x, y in zip(images, classes, strict=True):
        averaged = gradients(tf.constant(x), tf.constant(y))
        first = first or averaged
        optimizer.apply_gradients(zip(averaged, model.trainable_variables, strict=True))
    return {"gradients": [g.numpy() for g in first or []], "weights": model.get_weights()}


def train_strategy() -> dict[str, Any]:
    """As one worker of HPUStrategy."""
    import tensorflow as tf

    from habana_tf.distribute import HPUStrategy

    strategy = HPUStrategy()
    rank, size = strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync
    with strategy.scope():
        model = network()
        optimizer = tf.keras.optimizers.SGD(LEARNING_RATE)

    def replica(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            value = loss(model, x, y)
        found = tape.gradient(value, model.trainable_variables)
        averaged = tf.distribute.get_replica_context().all_reduce("mean", found)
        if hasattr(optimizer, "aggregate_gradients"):
            pairs = zip(averaged, model.trainable_variables, strict=True)
            optimizer.apply_gradients(pairs, skip_gradients_aggregation=True)
        else:  # Keras 3 always sums over the workers by itself
            optimizer.apply_gradients(zip([g / size for g in found], model.trainable_variables, strict=True))
        return averaged

    @tf.function
    def step(x: Any, y: Any) -> Any:
        return strategy.run(replica, args=(x, y))

    return _workers(rank, size, step, model)


def train_horovod() -> dict[str, Any]:
    """As one rank of Horovod."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    import habana_tf

    habana_tf.load_habana_module()
    hvd.init()
    model = network()
    optimizer = tf.keras.optimizers.SGD(LEARNING_RATE)

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            value = loss(model, x, y)
        averaged = hvd.DistributedGradientTape(tape).gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(averaged, model.trainable_variables, strict=True))
        return averaged

    return _workers(hvd.rank(), hvd.size(), step, model)


def _workers(rank: int, size: int, step: Any, model: Any) -> dict[str, Any]:
    """The steps of one of several workers, each with its part of every batch."""
    import tensorflow as tf

    from habana_tf import cache
    from habana_tf._native import _bridge

    images, classes = examples()
    mine = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
    first, before = None, 0
    for k, (x, y) in enumerate(zip(images[:, mine], classes[:, mine], strict=True)):
        averaged = step(tf.constant(x), tf.constant(y))
        first = first or [g.numpy() for g in averaged]
        if k == STEPS // 2:
            [g.numpy() for g in averaged]
            before = _bridge.counters()["launches"]
    weights = model.get_weights()
    launches = (_bridge.counters()["launches"] - before) / (STEPS - 1 - STEPS // 2)
    variable = model.trainable_variables[0]
    held = variable if isinstance(getattr(variable, "device", None), str) else variable.value  # Keras 3 wraps it
    return {
        "rank": rank, "gradients": first, "weights": weights, "launches": launches, "device": held.device,
        "recipes": cache.stats().to_json(),
    }  # fmt: skip


def main(kind: str, parts: str = "1") -> None:
    """Writes the arrays into the folder REPORTS."""
    made = {"stock": lambda: train_stock(int(parts)), "strategy": train_strategy, "horovod": train_horovod}[kind]()
    name = f"stock{parts}" if kind == "stock" else str(made["rank"])
    arrays = {f"{what}{k}": a for what in ("gradients", "weights") for k, a in enumerate(made[what])}
    folder = Path(os.environ["REPORTS"])
    np.savez(folder / f"{name}.npz", **arrays)
    numbers = {k: v for k, v in made.items() if k not in ("gradients", "weights")}
    (folder / name).write_text(json.dumps(numbers))


if __name__ == "__main__":
    main(*sys.argv[1:])
