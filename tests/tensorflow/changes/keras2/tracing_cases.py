"""Trains small Keras models with the changes of Keras 2 and without, in one process, and prints what each saw as JSON.

{case: [with it, without it]}, each {"traces": of the training step, "history": {...}, "slots": [...],
                                     "metrics": [...], "weights": [...]}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import habana_tf
import habana_tf.distribute
from tests.tensorflow.changes.keras2.both_ways import both_ways

layers = tf.keras.layers
habana_tf.load_habana_module()

X = np.random.default_rng(0).normal(size=(24, 6)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, 3, 24)
traces = 0


def crossentropy(y: Any, logits: Any) -> Any:
    global traces
    traces += 1
    return tf.keras.losses.sparse_categorical_crossentropy(y, logits, from_logits=True)


def dense() -> Any:
    return tf.keras.Sequential(
        [layers.Input((6,)), layers.Dense(8, "relu"), layers.BatchNormalization(), layers.Dense(3)]
    )


def dropout() -> Any:
    parts = [layers.Dense(8), layers.Dropout(0.4), layers.Dense(8), layers.Dropout(0.2, seed=7), layers.Dense(3)]
    return tf.keras.Sequential([layers.Input((6,)), *parts])


def twice() -> Any:
    """One dropout that is called twice draws two seeds a trace."""
    drop, x = layers.Dropout(0.3), layers.Input((6,))
    return tf.keras.Model(x, layers.Dense(3)(drop(layers.Dense(8)(drop(x)))))


def two_outputs() -> Any:
    x = layers.Input((6,))
    return tf.keras.Model(x, {"a": layers.Dense(3, name="a")(x), "b": layers.Dense(1, name="b")(x)})


def recurrent() -> Any:
    x = layers.Input((6,))
    y = layers.LSTM(5, return_sequences=True)(layers.Reshape((3, 2))(x))
    return tf.keras.Model(x, layers.Dense(3)(layers.GRU(4)(y)))


class Written(tf.keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.drop, self.out = layers.Dense(8), layers.Dropout(0.3), layers.Dense(3)

    def call(self, x: Any, training: bool = False) -> Any:
        if tf.reduce_sum(x) > 1e9:  # needs AutoGraph
            x = -x
        return self.out(self.drop(self.inner(x), training=training))


def written_and_built() -> Any:
    model = Written()
    model(X[:1])
    return model


class OwnStep(tf.keras.Model):
    def train_step(self, data: Any) -> Any:
        return super().train_step(data)


def own_step() -> Any:
    x = layers.Input((6,))
    return OwnStep(x, layers.Dense(3)(x))


class ConvertedStep(tf.keras.Model):
    def train_step(self, data: Any) -> Any:
        def turned(strategy: Any, x: Any) -> Any:
            if tf.reduce_sum(x) > 1e9:  # converted where the step is called with AutoGraph on, and nowhere else
                x = -x
            return x

        x, y = data
        return super().train_step((tf.distribute.get_replica_context().merge_call(turned, (x,)), y))


def converted_step() -> Any:
    x = layers.Input((6,))
    return ConvertedStep(x, layers.Dense(3)(x))


def step_of_one_object() -> Any:
    model = dense()

    def train_step(data: Any) -> Any:
        return {"mine": model.compute_loss(*data, model(data[0], training=True))}

    model.train_step = train_step
    return model


class OwnLoss(tf.keras.Model):
    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None) -> Any:
        return tf.reduce_mean(crossentropy(y, y_pred))


def own_loss() -> Any:
    x = layers.Input((6,))
    return OwnLoss(x, layers.Dense(3)(x))


class OwnMetrics(tf.keras.Model):
    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> Any:
        return {"mine": tf.reduce_mean(y_pred)}


def own_metrics() -> Any:
    x = layers.Input((6,))
    return OwnMetrics(x, layers.Dense(3)(x))


class FirstHalf(tf.keras.optimizers.Adam):
    """Trains some of the variables."""

    def apply_gradients(self, grads_and_vars: Any, *rest: Any, **how: Any) -> Any:
        return super().apply_gradients(list(grads_and_vars)[:2], *rest, **how)


def adam() -> Any:
    return tf.keras.optimizers.Adam(0.01)


def fit(
    model: Any, optimizer: Any, metrics: Any = ("accuracy",), y: Any = Y, loss: Any = crossentropy, **how: Any
) -> Any:
    model.compile(optimizer, loss, metrics=list(metrics) if isinstance(metrics, tuple) else metrics, **how)
    return model.fit(X, y, batch_size=8, epochs=2, shuffle=False, verbose=0, validation_data=(X, y)).history


def under_strategy() -> Any:
    with habana_tf.distribute.HPUStrategy().scope():
        model = dropout()
        optimizer = adam()
    return model, fit(model, optimizer)


def evaluated_first(model: Any) -> Any:
    model.compile(adam(), crossentropy, metrics=["accuracy"])
    before = model.evaluate(X, Y, verbose=0, return_dict=True)
    return {**before, **fit(model, adam())}


def on(model: Any, optimizer: Any, *rest: Any, **how: Any) -> Any:
    return model, fit(model, optimizer, *rest, **how)


def evaluated(model: Any) -> Any:
    return model, evaluated_first(model)


CASES: dict[str, Callable[[], Any]] = {
    "dense": lambda: on(dense(), adam()),
    "no slots": lambda: on(dense(), "sgd", ()),
    "dropout": lambda: on(dropout(), adam()),
    "dropout twice": lambda: on(twice(), adam()),
    "clipped, averaged": lambda: on(dense(), tf.keras.optimizers.Adam(0.01, clipnorm=1.0, use_ema=True)),
    "two outputs": lambda: on(
        two_outputs(), adam(), {"a": ["accuracy"], "b": ["mae", tf.keras.metrics.MeanSquaredError()]},
        {"a": Y, "b": Y.astype(np.float32)}, {"a": crossentropy, "b": "mse"}, loss_weights={"a": 1.0, "b": 0.5},
    ),
    "several steps": lambda: on(dense(), adam(), steps_per_execution=3),
    "scaled loss": lambda: on(dense(), tf.keras.mixed_precision.LossScaleOptimizer(adam())),
    "recurrent": lambda: on(recurrent(), adam()),
    "built": lambda: on(written_and_built(), adam()),
    "unbuilt": lambda: on(Written(), adam()),
    "own step": lambda: on(own_step(), adam()),
    "own step, converted": lambda: on(converted_step(), adam()),
    "step of one object": lambda: on(step_of_one_object(), adam()),
    "own loss": lambda: on(own_loss(), adam(), ("accuracy",), Y, None),
    "own metrics": lambda: on(own_metrics(), adam()),
    "own optimizer": lambda: on(dense(), FirstHalf(0.01)),
    "legacy": lambda: on(dense(), tf.keras.optimizers.legacy.Adam(0.01)),
    "evaluated first": lambda: evaluated(dense()),
    "strategy": under_strategy,
}  # fmt: skip


def seen(case: Callable[[], Any]) -> dict[str, Any]:
    global traces
    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(5)
    traces = 0
    model, history = case()
    optimizer = model.optimizer
    slots = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
    return {
        "traces": traces,
        "history": history,
        "slots": [v.name for v in slots],
        "metrics": [w.name for m in model.metrics for w in m.weights],
        "names": model.metrics_names,
        "weights": [w.numpy().tolist() for w in model.weights],
    }


if __name__ == "__main__":
    both_ways(CASES, seen, ())
