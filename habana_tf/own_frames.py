"""Tracebacks that TensorFlow and Keras shorten leave our functions out, as they leave out their own.

What: an error of a program shows the program's lines, and of TensorFlow's and Keras' frames the last one. Where this
package replaces a function of theirs (`keras_tracing.py`, `keras_updates.py`, `keras_recurrent.py`), a frame of its own
stands between, which counted as the program's: it was shown, and the last frame of Keras was not.
`tf.debugging.disable_traceback_filtering()` shows all of them.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from .after_import import Changes

__all__ = ["install", "uninstall"]

_MODULES = [
    f"{package}.traceback_utils" for package in ("tensorflow.python.util", "keras.src.utils", "tf_keras.src.utils")
]
_PATHS = "_EXCLUDED_PATHS"


def _wrap(module: ModuleType) -> None:
    paths = getattr(module, _PATHS, None)
    if isinstance(paths, tuple):
        _changes.set(module, _PATHS, (*paths, str(Path(__file__).parent.resolve())))


_changes = Changes(_MODULES, _wrap)
install = _changes.install
"""Changes TensorFlow and Keras now, or as soon as they are imported."""
uninstall = _changes.uninstall
"""Gives them their own behaviour back."""
