"""Programs with a mistake, run on stock TensorFlow and then on HPU in one process: prints what each was told, as JSON.
Arguments are the names of those to run.

{case: [stock TensorFlow's error, the one beside HPU]}, each as {"type": its name, "text": its words}
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

layers = tf.keras.layers
X, Y = np.ones((8, 4), np.float32), np.ones((8, 1), np.float32)
SEQUENCES = np.ones((8, 5, 4), np.float32)


def dense() -> Any:
    return tf.keras.Sequential([layers.Dense(3, input_shape=(4,)), layers.Dense(1)])


def fit(model: Any, x: Any = X, y: Any = Y, optimizer: Any = "sgd", loss: Any = "mse", **options: Any) -> None:
    model.compile(optimizer, loss, **options)
    model.fit(x, y, batch_size=4, verbose=0)


def of_other_shape(method: str) -> None:
    model = dense()
    model.compile("sgd", "mse")
    getattr(model, method)(np.ones((8, 5), np.float32), verbose=0)


def of_three_columns(labels: Any, outputs: Any) -> Any:
    return tf.reduce_mean(tf.ensure_shape(labels, [None, 3]) - outputs)


def raises(labels: Any, outputs: Any) -> Any:
    raise KeyError("no such label")


def fails_when_run(labels: Any, outputs: Any) -> Any:
    with tf.control_dependencies([tf.debugging.assert_less(labels, 0.0, message="labels below zero")]):
        return tf.reduce_mean(labels - outputs)


class Layer(tf.keras.layers.Layer):
    def call(self, x: Any) -> Any:
        return tf.matmul(x, tf.ones([9, 9]))


class Written(tf.keras.Model):
    """A model that is built before its mistake is met: Keras' first trace is spared."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.dropout, self.wrong, self.use = layers.Dense(4), layers.Dropout(0.5), Layer(), False

    def call(self, x: Any) -> Any:
        x = self.dropout(self.inner(x))
        return self.wrong(x) if self.use else x


def in_a_layer(built: bool) -> None:
    model = Written()
    if built:
        model(X)
    model.use = True
    fit(model)


class ConditionOnATensor(tf.keras.Model):
    def train_step(self, data: Any) -> Any:
        return {"found": 1.0 if (lambda: bool(tf.reduce_sum(data[0]) > 0))() else 0.0}


class NotConverted(tf.keras.Model):
    def train_step(self, data: Any) -> Any:
        return {"found": left_alone(data[0])}


@tf.autograph.experimental.do_not_convert
def left_alone(x: Any) -> Any:
    if tf.reduce_sum(x) > 0:
        return x
    return -x


class MergeInABranch(tf.keras.Model):
    def train_step(self, data: Any) -> Any:
        def merged() -> Any:
            context = tf.distribute.get_replica_context()
            return context.merge_call(lambda strategy, v: v, (tf.reduce_sum(data[0]),))

        return {"found": tf.cond(tf.reduce_sum(data[0]) > 0, merged, lambda: 0.0)}


class OwnUpdate(tf.keras.optimizers.SGD):
    def update_step(self, gradient: Any, variable: Any) -> None:
        raise KeyError("no such slot")


class Schedule(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step: Any) -> Any:
        if tf.inside_function():
            raise KeyError("no such step")
        return 0.1


def with_step(kind: Any) -> None:
    x = layers.Input((4,))
    fit(kind(x, layers.Dense(1)(x)))


def in_replicas(kind: Any) -> None:
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        with_step(kind)


def wrong_product(x: Any) -> Any:
    return tf.matmul(x, tf.ones([9, 9]))


def in_a_cell(kind: Any) -> None:
    x = layers.Input((5, 4))
    recurrent = kind(3)
    model = tf.keras.Model(x, layers.Dense(1)(recurrent(x)))
    recurrent.cell.kernel = tf.Variable(tf.ones([9, 12]))
    fit(model, SEQUENCES)


def in_a_function() -> None:
    tf.function(lambda x: wrong_product(x))(tf.constant(X))


def over_an_iterator() -> None:
    def step(iterator: Any) -> Any:
        return wrong_product(next(iterator))

    tf.function(step)(iter(tf.data.Dataset.from_tensors(X)))


def when_run() -> None:
    tf.function(lambda x: fails_when_run(x, x))(tf.constant(X))


CASES: dict[str, Callable[[], None]] = {
    "inputs of another shape, fit": lambda: fit(dense(), np.ones((8, 5), np.float32)),
    "inputs of another shape, evaluate": lambda: of_other_shape("evaluate"),
    "inputs of another shape, predict": lambda: of_other_shape("predict"),
    "several steps": lambda: fit(dense(), np.ones((8, 5), np.float32), steps_per_execution=2),
    "labels of another shape": lambda: fit(dense(), X, np.ones((8, 2), np.float32), loss=of_three_columns),
    "labels that do not go with the output": lambda: fit(dense(), X, np.ones((8, 3, 2), np.float32)),
    "no labels": lambda: fit(dense(), X, None),
    "a loss that raises": lambda: fit(dense(), loss=raises),
    "a metric that raises": lambda: fit(dense(), metrics=[raises]),
    "a loss that fails when it is run": lambda: fit(dense(), loss=fails_when_run),
    "a layer": lambda: in_a_layer(False),
    "a layer of a built model": lambda: in_a_layer(True),
    "a condition on a tensor": lambda: with_step(ConditionOnATensor),
    "a condition that is not converted": lambda: with_step(NotConverted),
    "merge_call in a branch": lambda: in_replicas(MergeInABranch),
    "an update of its own": lambda: fit(dense(), optimizer=OwnUpdate()),
    "a schedule": lambda: fit(dense(), optimizer=tf.keras.optimizers.Adam(Schedule())),
    "an LSTM whose kernel does not fit": lambda: in_a_cell(layers.LSTM),
    "a GRU whose kernel does not fit": lambda: in_a_cell(layers.GRU),
    "a function": in_a_function,
    "a function over an iterator": over_an_iterator,
    "a function that fails when it is run": when_run,
    "an eager op": lambda: wrong_product(tf.constant(X)),
    "an eager variable": lambda: tf.Variable(X).assign(np.ones(3, np.float32)).numpy(),
}


def told(case: Callable[[], None]) -> dict[str, str]:
    tf.keras.backend.clear_session()
    try:
        case()
    except Exception as error:
        return {"type": type(error).__name__, "text": str(error)}
    return {"type": "none", "text": ""}


if __name__ == "__main__":
    found: dict[str, list[dict[str, str]]] = {name: [] for name in sys.argv[1:]}
    for beside_hpu in (False, True):
        if beside_hpu:
            import habana_tf

            habana_tf.load_habana_module()
        for name in found:
            found[name].append(told(CASES[name]))
    print(json.dumps(found))
