"""Traces Keras 2's LSTM and GRU into the step's own graph.

What: Keras traces each of these layers twice, as two functions that the step calls: one for any device and one for
cuDNN, among which TensorFlow chooses when it optimizes the graph; it never inlines them. HPU has no cuDNN, so the one
for any device, which TensorFlow would choose anyway, becomes part of the step: the same ops in the same order.

Why: a called function is a graph of its own, so that a step with two such layers was five launches, with lists of
tensors taken apart and put together between them. Inlined it is one launch, or two, and half of the tracing goes.

In a session's graph (TF1) nothing is changed: loops outside of functions are other ops there. Keras 3 has no such
functions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from habana_tf.host_changes.change import Group
from habana_tf.tensorflow.changes.keras2.packages import ONLY, changes


def _inlined(original: Callable[..., Any]) -> Callable[..., Any]:
    """`lstm_with_backend_selection` or its sister: in a function, the layer for any device."""
    module = sys.modules[original.__module__]
    standard = getattr(module, "standard_" + original.__name__.removesuffix("_with_backend_selection"))

    def with_backend_selection(**parameters: Any) -> Any:
        import tensorflow as tf

        return standard(**parameters) if tf.inside_function() else original(**parameters)

    return with_backend_selection


RECURRENT = Group(
    "keras2_recurrent",
    "each LSTM and GRU of a step is a function of its own: more launches, and twice the tracing",
    tuple(
        change
        for kind in ("lstm", "gru")
        for change in changes(f"layers.rnn.{kind}", f"{kind}_with_backend_selection", _inlined)
    ),
    worth="without it lstm's step takes 1.5 times as long, its first step 2.0 times",
    only=ONLY,
)
