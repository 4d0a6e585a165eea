"""Tracebacks that TensorFlow and Keras shorten leave our functions out, as they leave out their own.

An error of a program shows the program's lines, and of TensorFlow's and Keras' frames the last one. Where this package
replaces a function of theirs, a frame of its own stands between, which would count as the program's: it would be
shown, and the last frame of Keras would not. `tf.debugging.disable_traceback_filtering()` shows all of them.
"""

from __future__ import annotations

from pathlib import Path

from habana_tf.tensorflow_changes.change import Change, Group

_PACKAGE = Path(__file__).resolve().parents[1]
_MODULES = ("tensorflow.python.util", "keras.src.utils", "tf_keras.src.utils")


def _with_ours(paths: tuple[str, ...]) -> tuple[str, ...]:
    return (*paths, str(_PACKAGE))


TRACEBACKS = Group(
    "tracebacks",
    "the last frame of Keras is missing in errors of a program, and a frame of ours stands there",
    tuple(Change(f"{module}.traceback_utils", "_EXCLUDED_PATHS", _with_ours) for module in _MODULES),
)
