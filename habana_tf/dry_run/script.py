"""Runs a script up to its first `fit`, to predict that training step instead of training.

Keras' `fit` is replaced meanwhile: the replacement takes the model and one batch of the data, and ends the script. What
the script does before (reading data, building the model) is done.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from habana_tf.card.prediction.foreseen import PredictionError
from habana_tf.hardware import device_state
from habana_tf.loader import load_habana_module

KERAS_BATCH = 32
"""Examples per batch where `fit` gets arrays and no batch_size (Keras' documentation)."""

_ON_STEP = "call habana_tf.predict() on its train step instead"
_IN_PYTORCH = "for a model of PyTorch call habana_tf.predict(model, *inputs, loss=..., optimizer=...) in Python"


class _Reached(BaseException):
    """The script came to `fit`. No Exception: scripts catch those."""

    def __init__(self, model: Any, data: tuple[Any, ...]) -> None:
        super().__init__("fit was reached")
        self.model, self.data = model, data


def model_and_batch(path: str, arguments: Sequence[str] = ()) -> tuple[Any, tuple[Any, ...]]:
    """The model that a script calls `fit` of first, and one batch of what it gives it, as specs.

    path: the script; arguments: its own. Raises PredictionError when it ends before it calls `fit`, and where
    TensorFlow is not installed.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise _no_fit(path, "would need TensorFlow to call Keras' fit, and it is not installed")
    load_habana_module()
    before, places, code = list(sys.argv), list(sys.path), ""
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))  # modules beside a script are found, as Python has it
    try:
        with _fit(_reach):
            runpy.run_path(path, run_name="__main__")
    except _Reached as reached:
        return reached.model, reached.data
    except SystemExit as ended:
        code = f"with {ended.code!r} and "
    finally:
        sys.argv, sys.path[:] = before, places
    raise _no_fit(path, f"ended {code}without calling fit")


def _no_fit(path: str, why: str) -> PredictionError:
    in_pytorch = device_state.is_loaded(device_state.PYTORCH) or importlib.util.find_spec("tensorflow") is None
    return PredictionError(f"{path} {why}: {_IN_PYTORCH if in_pytorch else _ON_STEP}")


@contextmanager
def _fit(instead: Callable[..., Any]) -> Iterator[None]:
    import tensorflow as tf

    before = tf.keras.Model.fit
    tf.keras.Model.fit = instead
    try:
        yield
    finally:
        tf.keras.Model.fit = before


def _reach(model: Any, x: Any = None, y: Any = None, batch_size: int | None = None, *_: Any, **more: Any) -> None:
    raise _Reached(model, _batch(x, y, more.get("sample_weight"), batch_size or KERAS_BATCH))


def _batch(x: Any, y: Any, weights: Any, batch: int) -> tuple[Any, ...]:
    """The specs of one batch of what `fit` got."""
    import tensorflow as tf

    if y is None and not hasattr(x, "shape") and not isinstance(x, (dict, list, tuple)):
        first = x[0] if hasattr(x, "__getitem__") else next(iter(x))
        return tuple(first) if isinstance(first, (tuple, list)) else (first,)

    def cut(array: Any) -> Any:
        return tf.TensorSpec([min(batch, array.shape[0]), *array.shape[1:]], array.dtype)

    return tuple(tf.nest.map_structure(cut, part) for part in (x, y, weights) if part is not None)
