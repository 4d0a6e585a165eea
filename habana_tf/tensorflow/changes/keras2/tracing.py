"""Creates optimizer slots and metrics before Keras 2 traces the step of `fit`, so that the step is traced once.

What: TensorFlow traces a `tf.function` a second time if the first trace created variables. Keras 2 creates the slots
of its optimizer and its metrics in the first trace, so every `fit` traces its step twice, which is most of the time
of a first step. Here they are created right before the step is traced: same names, same order, same values.

Seeds of dropout are drawn while tracing, and the trace that counts is Keras' second one. Where a model has such seeds,
its forward pass is traced by itself first, which draws what Keras' first trace would have drawn: the numbers of a
program are the same with and without this.

Left to Keras, which then traces twice: models with a `train_step`, `test_step`, `compute_loss` or `compute_metrics` of
their own or without shapes yet, Keras' legacy optimizers and those whose `minimize` or `apply_gradients` is not Keras',
Nadam, several replicas in one process, parameter servers, `run_eagerly`, data of unknown rank.
Whatever goes wrong here is undone, logged for debugging, and left to Keras too. Keras 3 has all its variables before it
traces.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from habana_tf.host_changes.change import Group
from habana_tf.tensorflow.changes.keras2.packages import ONLY, changes

_log = logging.getLogger("habana_tf")
Step = Callable[[Any], Any]
"""A step over an iterator: what Keras' make_train_function and make_test_function make."""


def _prepared(kind: str, make: Callable[..., Step]) -> Callable[..., Step]:
    """`make_train_function` or `make_test_function` whose step makes its variables before it is first called.

    kind: "train" or "test".
    """
    own = sys.modules[make.__module__].Model
    parts = {name: getattr(own, name) for name in (f"{kind}_step", "compute_loss", "compute_metrics")}
    name, training = f"{kind}_function", kind == "train"

    def make_function(self: Any, force: bool = False) -> Step:
        before = getattr(self, name)
        made = make(self, force)
        plain = all(getattr(getattr(self, part), "__func__", None) is own for part, own in parts.items())
        left = self.run_eagerly or self._cluster_coordinator
        if made is before or not plain or left:
            return made

        def first(iterator: Any) -> Any:
            if getattr(self, name) is first:
                setattr(self, name, made)
            _make_variables(self, iterator, training)
            return made(iterator)

        setattr(self, name, first)
        return first

    return make_function


def _make_variables(model: Any, iterator: Any, training: bool) -> None:
    try:
        specs = _specs(iterator)
        if specs is None or not model.built or model.distribute_strategy.num_replicas_in_sync > 1:
            return
        if training and not _of_keras(model.optimizer):
            return
        with model.distribute_strategy.scope():
            _metrics(model, *specs, training)
            if training:
                _slots(model)
    except Exception:
        _log.debug("Keras traces the step of %r twice", getattr(model, "name", model), exc_info=True)


def _of_keras(optimizer: Any) -> bool:
    """Whether it makes its slots as Keras' optimizers do, those before them (`legacy`) left out."""
    if not (hasattr(optimizer, "build") and hasattr(optimizer, "iterations")):
        return False
    update = getattr(getattr(optimizer, "inner_optimizer", optimizer), "update_step", None)
    if str(getattr(update, "__module__", "")).endswith(".nadam"):
        return False  # it counts in Python how often it was traced, and its numbers depend on that
    steps = (getattr(optimizer, name, None) for name in ("minimize", "apply_gradients"))
    return all(str(getattr(step, "__module__", "")).startswith(("keras.", "tf_keras.")) for step in steps)


def _specs(iterator: Any) -> tuple[Any, Any] | None:
    """x and y of the data, as tf.TensorSpecs; None where they do not say enough."""
    import tensorflow as tf

    data = getattr(iterator, "element_spec", None)
    leaves = tf.nest.flatten(data)
    if any(not isinstance(leaf, tf.TensorSpec) or leaf.shape.rank is None for leaf in leaves):
        return None
    if not isinstance(data, tuple):
        return data, None
    return data[0], data[1] if len(data) > 1 else None


def _metrics(model: Any, x: Any, y: Any, training: bool) -> None:
    loss, metrics = model.compiled_loss, model.compiled_metrics
    outputs = _traced_outputs(model, x) if training and _draws_seeds(model) else None
    if y is None or metrics is None or loss is None or (metrics.built and loss.built):
        return
    if outputs is None:
        outputs = _known_outputs(model) or _traced_outputs(model, x)
    with _undone(metrics):
        if not metrics.built:
            metrics.build(outputs, metrics._conform_to_outputs(outputs, y))
    with _undone(loss):
        if not loss.built:
            loss.build(outputs)


@contextmanager
def _undone(container: Any) -> Iterator[None]:
    """Puts an object's attributes back after an error."""
    before = dict(vars(container))
    try:
        yield
    except Exception:
        vars(container).clear()
        vars(container).update(before)
        raise


def _known_outputs(model: Any) -> Any:
    """Of a model of layers that are connected: its outputs, as tf.TensorSpecs."""
    import tensorflow as tf

    if not getattr(model, "outputs", None):
        return None
    return tf.nest.map_structure(lambda out: tf.TensorSpec(out.shape, out.dtype), model.output)


def _traced_outputs(model: Any, x: Any) -> Any:
    """The outputs of the forward pass, traced as Keras does it in a step."""
    import tensorflow as tf

    def forward(data: Any) -> Any:
        return model.distribute_strategy.run(model, args=(data,), kwargs={"training": True})

    return tf.function(forward).get_concrete_function(x).structured_outputs


def _draws_seeds(model: Any) -> bool:
    """Whether a layer draws a seed, from a sequence of seeds, each time it is traced."""
    generators = (getattr(layer, "_random_generator", None) for layer in model._flatten_layers())
    return any(getattr(generator, "_seed", None) is not None for generator in generators)


def _slots(model: Any) -> None:
    import tensorflow as tf

    optimizer = model.optimizer
    if hasattr(optimizer, "inner_optimizer"):  # scales the loss, and is in no scope of names
        optimizer.build(model.trainable_variables)
        return
    with tf.name_scope(optimizer.name or "optimizer"):  # as in `apply_gradients`
        optimizer.build(model.trainable_variables)


TRACING = Group(
    "keras2_tracing",
    "the first step of each fit() is traced twice",
    tuple(
        change
        for kind in ("train", "test")
        for change in changes("engine.training", f"Model.make_{kind}_function", partial(_prepared, kind))
    ),
    worth="without it the first step of mobilenetv2 and bert takes 1.2 times as long, of mlp 1.3 times",
    only=ONLY,
)
