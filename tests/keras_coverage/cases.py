"""What each optimizer, schedule, activation, loss and metric of Keras is run on.

A case is a function that makes the object and returns one step, a callable without arguments: `run.py` calls it as a
`tf.function`, on HPU and on stock TensorFlow, and the tests compare what it returns. Inputs come from one seed and are
the same for both. `tables()` gives the cases by family; a name that Keras has and no table knows has no case, which a
test refuses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.keras_coverage import layers
from tests.keras_coverage.public import classes, functions
from tests.versions import KERAS_3

Step = Callable[[], Any]
Cases = dict[str, Callable[[], Step]]

k = tf.keras

NO_CASE = {
    **dict.fromkeys(["Optimizer", "Loss", "Metric", "LearningRateSchedule"], "computes nothing of its own"),
    "LossScaleOptimizer": "wraps another optimizer for float16, which HPU does not have",
    **dict.fromkeys(["MultiOptimizer", "OptimizerMap"], "hands each variable to another optimizer"),
    "Reduction": "names ways to sum a loss",
}


def tables() -> dict[str, Cases]:
    """All cases, by family."""
    return {
        "optimizers": optimizers(), "schedules": schedules(), "activations": activations(), "losses": losses(),
        "metrics": metrics(), **layers.tables(),
    }  # fmt: skip


def numbers(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> Any:
    """float32 numbers in [low, high)."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


# -- optimizers -----------------------------------------------------------------------------------------------

MORE_OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "SGD momentum": lambda: k.optimizers.SGD(0.1, momentum=0.9),
    "SGD nesterov": lambda: k.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "RMSprop centered": lambda: k.optimizers.RMSprop(0.01, momentum=0.9, centered=True),
    "Adam amsgrad": lambda: k.optimizers.Adam(0.01, amsgrad=True),
    "Adam clipnorm": lambda: k.optimizers.Adam(0.01, clipnorm=0.1),
    "Adam global_clipnorm": lambda: k.optimizers.Adam(0.01, global_clipnorm=0.1),
    "Adam clipvalue": lambda: k.optimizers.Adam(0.01, clipvalue=0.01),
    "Adam ema": lambda: k.optimizers.Adam(0.01, use_ema=True),
    "Adam weight_decay": lambda: k.optimizers.Adam(0.01, weight_decay=0.01),
}
LEGACY_OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "legacy SGD momentum": lambda: k.optimizers.legacy.SGD(0.1, momentum=0.9),
    "legacy SGD nesterov": lambda: k.optimizers.legacy.SGD(0.1, momentum=0.9, nesterov=True),
    "legacy RMSprop centered": lambda: k.optimizers.legacy.RMSprop(0.01, momentum=0.9, centered=True),
    "legacy Adam amsgrad": lambda: k.optimizers.legacy.Adam(0.01, amsgrad=True),
}


def optimizers() -> Cases:
    """Three steps' worth of variables and slots of a table of embeddings and a matrix, dense and sparse gradients."""
    found = {name: _of(cls) for name, cls in classes(k.optimizers, k.optimizers.Optimizer).items()}
    makers = {n: m for n, m in found.items() if n not in NO_CASE} | MORE_OPTIMIZERS
    if not KERAS_3:
        old = classes(k.optimizers.legacy, k.optimizers.legacy.Optimizer)
        makers |= {f"legacy {name}": _of(cls) for name, cls in old.items()} | LEGACY_OPTIMIZERS
    return {name: _training(make) for name, make in makers.items()}


def _of(cls: type) -> Callable[[], Any]:
    return lambda: cls(learning_rate=0.01)


def _training(make: Callable[[], Any]) -> Callable[[], Step]:
    def prepare() -> Step:
        table, matrix = k.layers.Embedding(7, 4), k.layers.Dense(3)
        rows, wanted = tf.constant([[1, 5, 1], [2, 0, 5]]), tf.constant(numbers(2, 3, 3))
        matrix(table(rows))
        weights = [*table.trainable_variables, *matrix.trainable_variables]
        optimizer = make()
        if hasattr(optimizer, "build"):
            optimizer.build(weights)

        def step() -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((matrix(table(rows)) - wanted) ** 2)
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            slots = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
            return [loss, *(tf.convert_to_tensor(v) for v in (*weights, *slots))]

        return step

    return prepare


# -- schedules ------------------------------------------------------------------------------------------------

SCHEDULE_ARGUMENTS: dict[str, dict[str, Any]] = {
    "CosineDecay": {"decay_steps": 10, "warmup_steps": 3, "warmup_target": 0.2},
    "CosineDecayRestarts": {"first_decay_steps": 4},
    "ExponentialDecay": {"decay_steps": 10, "decay_rate": 0.7},
    "InverseTimeDecay": {"decay_steps": 10, "decay_rate": 0.7},
    "PolynomialDecay": {"decay_steps": 10},
}


def schedules() -> Cases:
    """The rate of a first, a middle and a late step."""
    kinds = classes(k.optimizers.schedules, k.optimizers.schedules.LearningRateSchedule)
    return {name: _schedule(name, cls) for name, cls in kinds.items()}


def _schedule(name: str, cls: Any) -> Callable[[], Step]:
    def prepare() -> Step:
        if name == "PiecewiseConstantDecay":
            schedule = cls([2, 10], [0.1, 0.05, 0.01])
        else:
            schedule = cls(0.1, **SCHEDULE_ARGUMENTS.get(name, {}))
        steps = [tf.Variable(n, dtype=tf.int64) for n in (0, 5, 30)]
        return lambda: [schedule(n) for n in steps]

    return prepare


# -- activations ----------------------------------------------------------------------------------------------


def activations() -> Cases:
    """The value and the gradient on both sides of every kink."""
    return {name: _activation(_with_arguments(name, fn)) for name, fn in functions(k.activations).items()}


FUNCTION_ARGUMENTS: dict[str, dict[str, Any]] = {
    "threshold": {"threshold": 1.0, "default_value": -1.0},
    "categorical_generalized_cross_entropy": {"q": 0.5},
}
"""Activations and losses that need more than tensors."""


def _with_arguments(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    return functools.partial(fn, **FUNCTION_ARGUMENTS.get(name, {}))


def _activation(fn: Callable[[Any], Any]) -> Callable[[], Step]:
    def prepare() -> Step:
        x, up = tf.constant(numbers(6, 10, low=-5, high=7)), tf.constant(numbers(6, 10, seed=1))

        def step() -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = fn(x)
                total = tf.reduce_sum(y * up[:, : y.shape[-1]])
            return y, tape.gradient(total, x)

        return step

    return prepare


# -- losses ---------------------------------------------------------------------------------------------------


def probabilities(*shape: int, seed: int = 0) -> Any:
    """float32 that sum to 1 over the last axis."""
    x = np.exp(numbers(*shape, seed=seed))
    return (x / x.sum(-1, keepdims=True)).astype(np.float32)


def targets(name: str) -> tuple[Any, Any]:
    """(y_true, y_pred) that suit a loss or a metric of this name, of 6 examples."""
    key = name.lower().replace("_", "")
    rng = np.random.default_rng(3)
    if "ctc" in key:
        return np.array([[1, 2], [3, 1]], np.int32), numbers(2, 6, 4)
    if any(word in key for word in ("circle", "generalized", "sparse")):
        return rng.integers(0, 5, 6).astype(np.int64), probabilities(6, 5)
    if "iou" in key:
        if "onehot" in key:
            return np.eye(3, dtype=np.float32)[rng.integers(0, 3, 6)], probabilities(6, 3)
        return rng.integers(0, 2, 6).astype(np.int32), rng.integers(0, 2, 6).astype(np.int32)
    if "categorical" in key or "f1" in key or "fbeta" in key:
        return np.eye(5, dtype=np.float32)[rng.integers(0, 5, 6)], probabilities(6, 5)
    if any(word in key for word in ("binary", "auc", "precision", "recall", "positives", "negatives", "sensitivity")):
        return rng.integers(0, 2, (6, 5)).astype(np.float32), numbers(6, 5, low=0.05, high=0.95)
    if any(word in key for word in ("kl", "kullback", "poisson", "dice", "tversky", "logarithmic", "msle")):
        return probabilities(6, 5, seed=1), probabilities(6, 5)
    if "hinge" in key:
        return np.sign(numbers(6, 5, seed=1)), numbers(6, 5)
    if key == "accuracy":
        return rng.integers(0, 3, (6, 1)).astype(np.float32), rng.integers(0, 3, (6, 1)).astype(np.float32)
    return numbers(6, 5, seed=1), numbers(6, 5)


def losses() -> Cases:
    """The value and the gradient for the prediction; of classes with weights per example too."""
    cases = {name: _loss(name, lambda cls=cls: cls(), True) for name, cls in classes(k.losses, k.losses.Loss).items()}
    return cases | {
        name: _loss(name, lambda name=name, fn=fn: _with_arguments(name, fn), False)
        for name, fn in functions(k.losses).items()
    }


def _loss(name: str, make: Callable[[], Any], weighted: bool) -> Callable[[], Step]:
    def prepare() -> Step:
        truth, guess = map(tf.constant, targets(name))
        loss = make()
        weights = tf.constant(numbers(guess.shape[0], low=0, high=1, seed=5))

        def step() -> Any:
            with tf.GradientTape() as tape:
                tape.watch(guess)
                values = [loss(truth, guess)]
                if weighted:
                    values.append(loss(truth, guess, sample_weight=weights))
                total = tf.add_n([tf.reduce_sum(v) for v in values])
            return *values, tape.gradient(total, guess)

        return step

    return prepare


# -- metrics --------------------------------------------------------------------------------------------------

METRIC_ARGUMENTS: dict[str, dict[str, Any]] = {
    "BinaryIoU": {"target_class_ids": [0, 1], "threshold": 0.5},
    "IoU": {"num_classes": 2, "target_class_ids": [0]},
    "MeanIoU": {"num_classes": 2},
    "OneHotIoU": {"num_classes": 3, "target_class_ids": [0, 2]},
    "OneHotMeanIoU": {"num_classes": 3},
    "MeanMetricWrapper": {"fn": k.losses.squared_hinge},
    "MeanRelativeError": {"normalizer": [1.0, 2.0, 3.0, 4.0, 5.0]},
    "PrecisionAtRecall": {"recall": 0.5},
    "RecallAtPrecision": {"precision": 0.5},
    "SensitivityAtSpecificity": {"specificity": 0.5},
    "SpecificityAtSensitivity": {"sensitivity": 0.5},
    "SparseTopKCategoricalAccuracy": {"k": 2},
    "TopKCategoricalAccuracy": {"k": 2},
    "R2Score": {"num_regressors": 2},
}
OF_VALUES = {"Mean", "Sum", "MeanTensor"}
"""Metrics of one tensor."""

NO_RESULT = {"R2Score"}
"""Metrics of whose result Keras can make no graph: it asks a Python `if` about a tensor. Their state is compared."""


def metrics() -> Cases:
    """State and result after each of two updates, the second with weights per example where the metric takes them."""
    cases = {name: _metric(name, cls) for name, cls in classes(k.metrics, k.metrics.Metric).items()}
    known = [*functions(k.losses).values()]
    rest = {name: fn for name, fn in functions(k.metrics).items() if fn not in known}
    return cases | {name: _metric_function(name, fn) for name, fn in rest.items()}


def _metric(name: str, cls: Any) -> Callable[[], Step]:
    def prepare() -> Step:
        metric = cls(**METRIC_ARGUMENTS.get(name, {}))
        truth, guess = map(tf.constant, targets(name))
        values = (guess,) if name in OF_VALUES else (truth, guess)
        metric.update_state(*values)
        metric.result()
        (metric.reset_state if hasattr(metric, "reset_state") else metric.reset_states)()

        def step() -> Any:
            metric.update_state(*values)
            return [] if name in NO_RESULT else metric.result(), [tf.convert_to_tensor(v) for v in metric.variables]

        return step

    return prepare


def _metric_function(name: str, fn: Callable[..., Any]) -> Callable[[], Step]:
    def prepare() -> Step:
        truth, guess = map(tf.constant, targets(name))
        return lambda: fn(truth, guess)

    return prepare
