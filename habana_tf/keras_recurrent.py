"""Keras 2's LSTM and GRU are traced into the step's own graph while HPU is loaded.

What: Keras traces each of these layers twice, as two functions that the step calls: one for any device and one for
cuDNN, among which TensorFlow chooses when it optimizes the graph; it never inlines them. HPU has no cuDNN, so the one
for any device, which TensorFlow would choose anyway, becomes part of the step: the same ops in the same order.

Why: a called function is a graph of its own, so that a step with two such layers was five launches, with lists of
tensors taken apart and put together between them. Inlined it is one launch, or two, and half of the tracing goes.

HABANA_SIM_KERAS_TRACE=off leaves both to Keras. In a session's graph (TF1) all is as Keras has it, where loops outside
of functions are other ops. Keras 3 has no such functions.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import settings
from .after_import import Changes

__all__ = ["install", "uninstall"]

_KINDS = ("lstm", "gru")
_MODULES = {f"{package}.src.layers.rnn.{kind}": kind for package in ("keras", "tf_keras") for kind in _KINDS}


def _wrap(module: ModuleType) -> None:
    kind = _MODULES[module.__name__]
    name = f"{kind}_with_backend_selection"
    standard, original = getattr(module, f"standard_{kind}", None), getattr(module, name, None)
    if standard is not None and original is not None:
        _changes.set(module, name, _inlined(standard, original))


_changes = Changes(_MODULES, _wrap)
install = _changes.install
"""Changes Keras 2 now, or as soon as it is imported."""
uninstall = _changes.uninstall
"""Gives Keras its own behaviour back."""


def _inlined(standard: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    def with_backend_selection(**parameters: Any) -> Any:
        import tensorflow as tf

        inside = tf.inside_function() and settings.HABANA_SIM_KERAS_TRACE.get()
        return standard(**parameters) if inside else original(**parameters)

    return with_backend_selection
