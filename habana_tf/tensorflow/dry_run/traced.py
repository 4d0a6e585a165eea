"""Traces what is to be predicted: a function as it is, a Keras model as its training step.

A compiled model trains with its own loss and a copy of its optimizer, so that the model is left unchanged. Without
targets, or not compiled, it trains on a loss that costs as much as a usual one: cross entropy where an output's last
axis has several entries, else the mean of squares.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from habana_tf.card.prediction.foreseen import PredictionError
from habana_tf.tensorflow.dry_run.weightless import Zeros, without_values

EXAMPLE = 65536
"""Elements of an input up to which its values are looked at where they fix a size."""
CONSTANTS = (bool, int, float, str)
"""Types of arguments that are constants of the function that is traced."""
MOMENTUM = 0.9
"""Of the optimizer that "momentum" names, and that is taken where nothing is asked for."""


def as_specs(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arrays, tensors, specs and shapes, in nests, as `tf.TensorSpec`s; a tuple of sizes is a shape of fp32. A
    number by itself stays what it is."""
    return tuple(_spec(x) for x in inputs)


def _spec(x: Any) -> Any:
    import tensorflow as tf

    if isinstance(x, tf.TensorSpec):
        return x
    if x is None or isinstance(x, CONSTANTS):
        return x
    if isinstance(x, tf.data.Dataset):
        whole = all(spec.shape.is_fully_defined() for spec in tf.nest.flatten(x.element_spec))
        return x.element_spec if whole else tf.nest.map_structure(_spec, next(iter(x.take(1))))
    if isinstance(x, tf.TensorShape):
        return tf.TensorSpec(x)
    if isinstance(x, dict):
        return {k: _spec(v) for k, v in x.items()}
    if isinstance(x, (tuple, list)):
        if x and all(isinstance(n, int) for n in x):
            return tf.TensorSpec(x)
        return type(x)(_spec(v) for v in x)
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return tf.TensorSpec(x.shape, x.dtype)
    raise PredictionError(f"an input of type {type(x).__name__}: give arrays, tensors, tf.TensorSpecs or shapes")


def examples_of(inputs: tuple[Any, ...]) -> list[Any | None]:
    """The values of small integer arrays and tensors among the inputs, as NumPy arrays; None for each other tensor.
    One per spec of `as_specs`, in TensorFlow's order."""
    return [value for x in inputs for value in _examples(x)]


def _examples(x: Any) -> list[Any | None]:
    import numpy as np
    import tensorflow as tf

    if isinstance(x, dict):
        return examples_of(tuple(x[key] for key in sorted(x)))
    if isinstance(x, (tuple, list)) and not all(isinstance(n, int) for n in x):
        return examples_of(tuple(x))
    if isinstance(x, (np.ndarray, np.generic)) or (tf.is_tensor(x) and hasattr(x, "numpy")):
        small = np.prod(x.shape) <= EXAMPLE and tf.as_dtype(x.dtype).is_integer
        return [np.asarray(x) if small else None]
    return [None for spec in tf.nest.flatten(_spec(x)) if isinstance(spec, tf.TensorSpec)]


def batch_of(specs: tuple[Any, ...]) -> int:
    """Examples in one step: the first size of the first input that has one."""
    import tensorflow as tf

    for spec in tf.nest.flatten(specs):
        if isinstance(spec, tf.TensorSpec) and spec.shape.rank:
            if spec.shape[0] is None:
                raise PredictionError(f"{spec}: give a size for each axis, the batch too")
            return int(spec.shape[0])
    return 1


def examples_with(inputs: tuple[Any, ...], specs: tuple[Any, ...], batch: int) -> list[Any | None]:
    """`examples_of` for inputs with another batch: values of the old one are not known there."""
    found = examples_of(inputs)
    if batch == batch_of(specs):
        return found
    return [value if value is not None and not value.shape else None for value in found]


def with_batch(specs: tuple[Any, ...], batch: int) -> tuple[Any, ...]:
    """The same inputs with another batch: each input's first size, where it is the batch now."""
    import tensorflow as tf

    now = batch_of(specs)

    def changed(spec: Any) -> Any:
        if isinstance(spec, tf.TensorSpec) and spec.shape.rank and spec.shape[0] == now:
            return tf.TensorSpec([batch, *spec.shape[1:]], spec.dtype, spec.name)
        return spec

    out: tuple[Any, ...] = tf.nest.map_structure(changed, specs)
    return out


def unpacked(specs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, where one element of a dataset has all of them."""
    return specs[0] if len(specs) == 1 and isinstance(specs[0], tuple) else specs


def traced(fn_or_model: Any, specs: tuple[Any, ...], optimizer: Any) -> Any:
    """The ConcreteFunction of a function, or of a model's training step."""
    import tensorflow as tf

    if isinstance(fn_or_model, tf.keras.Model):
        return _training_step(fn_or_model, specs, optimizer)
    if hasattr(fn_or_model, "captured_inputs"):
        return fn_or_model
    fn = fn_or_model if hasattr(fn_or_model, "get_concrete_function") else tf.function(lambda *a: fn_or_model(*a))
    with without_values():
        return fn.get_concrete_function(*specs)


def _training_step(model: Any, specs: tuple[Any, ...], optimizer: Any) -> Any:
    import tensorflow as tf

    if not model.built:
        tf.function(lambda x: model(x, training=True)).get_concrete_function(specs[0])
    compiled = bool(getattr(model, "compiled", getattr(model, "_is_compiled", False)))
    own = compiled and len(specs) > 1 and optimizer is None
    chosen = optimizer if optimizer is not None else model.optimizer if compiled else "momentum"
    with without_values():
        strategy = model.distribute_strategy
        with strategy.scope(), tf.device("/CPU:0"):  # counters and rates get their values there, not on HPU
            copy = _optimizer(chosen)
            _make_state(copy, model.trainable_variables)
        if own:
            with _instead(model, copy):
                with strategy.scope():
                    _make_metrics(model, specs)
                return _in_replica(strategy, model.train_step, specs)

        def step(x: Any) -> None:
            with tf.GradientTape() as tape:
                loss = _loss(model(x, training=True))
            weights = model.trainable_variables
            copy.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

        return _in_replica(strategy, step, specs[0])


def _in_replica(strategy: Any, step: Any, data: Any) -> Any:
    """A step traced as Keras' fit does it: by the strategy that the model was made under, if there was one."""
    import tensorflow as tf

    return tf.function(lambda batch: strategy.run(step, args=(batch,)), autograph=False).get_concrete_function(data)


@contextmanager
def _instead(model: Any, optimizer: Any) -> Iterator[None]:
    """The model with another optimizer."""
    before = model.optimizer
    model.optimizer = optimizer
    try:
        yield
    finally:
        model.optimizer = before


def _optimizer(chosen: Any) -> Any:
    """A new optimizer like the chosen one: Keras' object, or its name; "momentum" is SGD with it. Those by name are
    called after it, so that layers are called alike each time: Keras 3 would number them."""
    import tensorflow as tf

    if chosen == "momentum":
        return tf.keras.optimizers.SGD(0.1, momentum=MOMENTUM, name="SGD")
    found = tf.keras.optimizers.get(chosen) if isinstance(chosen, str) else chosen
    config = found.get_config()
    if isinstance(chosen, str):
        config["name"] = type(found).__name__
    return type(found).from_config(config)


def _make_state(optimizer: Any, weights: list[Any]) -> None:
    """Its variables now: made while tracing, they would have the step traced twice."""
    if hasattr(optimizer, "_create_all_weights"):  # Keras' legacy ones
        _ = optimizer.iterations
        optimizer._create_all_weights(weights)
    else:
        add = getattr(optimizer, "add_variable_from_reference", None)
        if add is not None and "model_variable" in inspect.signature(add).parameters:  # Keras 3 has it in another form
            optimizer.add_variable_from_reference = _without_zeros(add)
        optimizer.build(weights)


def _without_zeros(add: Callable[..., Any]) -> Callable[..., Any]:
    """Keras 2's way to make an optimizer's variable, without the zeros of its size that it would begin with."""

    def made(model_variable: Any, variable_name: str, shape: Any = None, initial_value: Any = None) -> Any:
        if initial_value is None and model_variable.shape.rank is not None:
            initial_value = Zeros(model_variable.shape if shape is None else shape, model_variable.dtype)
        return add(model_variable, variable_name, shape, initial_value)

    return made


def _make_metrics(model: Any, specs: tuple[Any, ...]) -> None:
    """Its metrics now, for the same reason; Keras 3 never makes them in the step."""
    import tensorflow as tf

    if hasattr(model, "_symbolic_build"):
        model._symbolic_build(data_batch=specs)
    elif getattr(model, "outputs", None) and not model.compiled_metrics.built:
        made = tf.nest.map_structure(lambda y: tf.TensorSpec(y.shape, y.dtype), model.output)
        model.compiled_loss.build(made)
        model.compiled_metrics.build(made, specs[1])


def _loss(outputs: Any) -> Any:
    import tensorflow as tf

    total = 0.0
    for y in tf.nest.flatten(outputs):
        y = tf.cast(y, tf.float32)
        if y.shape.rank > 1 and y.shape[-1] > 1:
            first = tf.zeros(tf.shape(y)[:-1], tf.int32)
            total += tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(first, y))
        else:
            total += tf.reduce_mean(tf.square(y))
    return total
