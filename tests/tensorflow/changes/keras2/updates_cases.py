"""Trains a small model under every optimizer of Keras 2 with the changes of Keras 2 and without, in one process, and
prints what each saw as JSON. Arguments: some of the cases.

{case: [with it, without it]}, each {"traced": updates that were traced aside, "called": for how many variables,
                                     "clusters": of the last graph,
                                     "losses": [...], "weights": [...], "slots": [...]}
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import habana_tf
import habana_tf.distribute
from habana_tf.tensorflow.changes.keras2 import updates
from tests.tensorflow.changes.keras2.both_ways import both_ways

layers, optimizers = tf.keras.layers, tf.keras.optimizers
habana_tf.load_habana_module()

X = np.random.default_rng(0).integers(0, 20, (24, 6))
Y = np.random.default_rng(1).integers(0, 3, 24)
counts = {"traced": 0, "called": 0}


def counted(cls: Any, name: str, what: str) -> None:
    original = getattr(cls, name)

    def method(self: Any, *arguments: Any) -> Any:
        result = original(self, *arguments)
        counts[what] += 1
        return result

    setattr(cls, name, method)


def model(sparse: bool = False) -> Any:
    """Three matrices, one of them an embedding's if `sparse`, and four vectors."""
    x = layers.Input((6,))
    y = layers.Embedding(20, 4)(x) if sparse else layers.Lambda(lambda t: tf.one_hot(tf.cast(t, tf.int32), 20))(x)
    y = layers.BatchNormalization()(layers.Dense(8, "relu")(layers.Flatten()(y)))
    return tf.keras.Model(x, layers.Activation("linear", dtype="float32")(layers.Dense(3)(y)))


def loss(y: Any, logits: Any) -> Any:
    return tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(y, logits, from_logits=True))


def fit(optimizer: Any, sparse: bool = False, between: Callable[[Any], None] | None = None) -> Any:
    """Six steps; between: what is done to the optimizer in the middle, after which the step is traced anew."""
    net, losses = model(sparse), []
    for _ in range(2):
        net.compile(net.optimizer if losses else optimizer, loss)
        losses += net.fit(X, Y, batch_size=8, shuffle=False, verbose=0).history["loss"]
        if between:
            between(optimizer)
    return net, optimizer, losses


def written(optimizer: Any, times: int) -> Any:
    """Some steps by hand, in one function; each applies its gradients so many times."""
    net = model()

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            value = loss(Y, net(X, training=True))
        gradients = tape.gradient(value, net.trainable_variables)
        for _ in range(times):
            optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
        return value

    return net, optimizer, [float(step()) for _ in range(3)]


def of_a_table() -> Any:
    """Gradients of a table as tensors: its variable is read by a gather before it is updated."""
    net, optimizer = model(sparse=True), optimizers.SGD(0.1, momentum=0.9)

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            value = loss(Y, net(X, training=True))
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(value, net.trainable_variables)]
        optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
        return value

    return net, optimizer, [float(step()) for _ in range(3)]


def in_two_parts(optimizer: Any) -> Any:
    """Layers that learn at different times."""
    net = model()
    optimizer.build(net.trainable_variables)

    @tf.function
    def step(parts: Any) -> Any:
        with tf.GradientTape() as tape:
            value = loss(Y, net(X, training=True))
        variables = net.trainable_variables[:3] if parts else net.trainable_variables[3:]
        optimizer.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))
        return value

    return net, optimizer, [float(step(part)) for part in (True, False, True)]


def mixed(policy: str, optimizer: Any) -> Any:
    tf.keras.mixed_precision.set_global_policy(policy)
    try:
        return fit(optimizer)
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")


def under_strategy() -> Any:
    with habana_tf.distribute.HPUStrategy().scope():
        net, optimizer = model(), optimizers.Adam(0.01)
        net.compile(optimizer, loss)
    return net, optimizer, net.fit(X, Y, batch_size=8, shuffle=False, verbose=0).history["loss"]


class Signs(optimizers.SGD):
    """An update of somebody else's, which need not be the same for all variables."""

    def update_step(self, gradient: Any, variable: Any) -> None:
        variable.assign_sub(0.01 * (tf.sign(gradient) if len(variable.shape) > 1 else gradient))


def other_momentum(optimizer: Any) -> None:
    optimizer.beta_1 = 0.5
    optimizer.learning_rate.assign(0.03)


SCHEDULE = optimizers.schedules.ExponentialDecay(0.02, 2, 0.5)
CASES: dict[str, Callable[[], Any]] = {
    **{kind: lambda kind=kind: fit(getattr(optimizers, kind)(0.01)) for kind in (
        "Adadelta", "Adagrad", "Adam", "Adamax", "Ftrl", "RMSprop", "SGD", "Nadam",
    )},
    "AdamW": lambda: fit(optimizers.AdamW(0.01, weight_decay=0.1)),
    "Lion": lambda: fit(optimizers.Lion(0.01)),
    "Adafactor": lambda: fit(optimizers.Adafactor(0.01)),
    "amsgrad": lambda: fit(optimizers.Adam(0.01, amsgrad=True)),
    "momentum": lambda: fit(optimizers.SGD(0.01, momentum=0.9)),
    "nesterov": lambda: fit(optimizers.SGD(0.01, momentum=0.9, nesterov=True)),
    "centered": lambda: fit(optimizers.RMSprop(0.01, momentum=0.9, centered=True)),
    "clipped, averaged": lambda: fit(
        optimizers.Adam(0.01, global_clipnorm=0.5, use_ema=True, ema_overwrite_frequency=2)
    ),
    "schedule": lambda: fit(optimizers.Adam(SCHEDULE)),
    "embedding": lambda: fit(optimizers.Adam(0.01), sparse=True),
    "settings changed": lambda: fit(optimizers.Adam(0.01), between=other_momentum),
    "bf16": lambda: mixed("mixed_bfloat16", optimizers.Adam(0.01)),
    "fp16, scaled": lambda: mixed("mixed_float16", optimizers.Adam(0.01)),
    "by hand": lambda: written(optimizers.Adam(0.01), 1),
    "twice a step": lambda: written(optimizers.Adam(0.01), 2),
    "in two parts": lambda: in_two_parts(optimizers.Adam(0.01)),
    "a table, densely": of_a_table,
    "strategy": under_strategy,
    "own update": lambda: fit(Signs(0.01)),
    "legacy": lambda: fit(optimizers.legacy.Adam(0.01)),
}  # fmt: skip


def seen(case: Callable[[], Any]) -> dict[str, Any]:
    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(5)
    counts.update(traced=0, called=0)
    net, optimizer, losses = case()
    optimizer = net.optimizer or optimizer
    slots = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
    return {
        **counts,
        "clusters": len(habana_tf.placement_report().graphs[-1].launches),
        "losses": losses,
        "weights": [w.numpy().tolist() for w in net.weights],
        "slots": [w.numpy().tolist() for w in slots],
    }


def main() -> None:
    counted(updates._VariableUpdate, "__init__", "traced")
    counted(updates._VariableUpdate, "values", "called")
    both_ways(CASES, seen, sys.argv[1:])


if __name__ == "__main__":
    main()
