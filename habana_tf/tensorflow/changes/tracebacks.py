"""Adds this package to the paths that TensorFlow and Keras filter from tracebacks.

A filtered traceback shows the program's frames, and the last one of TensorFlow's and Keras'. A frame of a function that
this package puts in place of one of theirs would count as the program's: it would be shown instead of the last frame of
Keras. `tf.debugging.disable_traceback_filtering()` shows all of them.
"""

from __future__ import annotations

from pathlib import Path

from habana_tf.host_changes.change import Change, Group

_PACKAGE = Path(__file__).resolve().parents[1]
_MODULES = ("tensorflow.python.util", "keras.src.utils", "tf_keras.src.utils")


def _with_ours(paths: tuple[str, ...]) -> tuple[str, ...]:
    return (*paths, str(_PACKAGE))


TRACEBACKS = Group(
    "tracebacks",
    "the last frame of Keras is missing in errors of a program, and a frame of ours stands there",
    tuple(Change(f"{module}.traceback_utils", "_EXCLUDED_PATHS", _with_ours) for module in _MODULES),
)
