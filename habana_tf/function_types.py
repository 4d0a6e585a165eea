"""The type of a traced function is hashed once, not in every call of it.

Each call of a `tf.function` looks for its trace in a table by type. The type of a trace names everything that it
captures, so a step of Keras' `fit` hashes every variable of the model: a tenth of a millisecond for some tens of them,
where the step of a small network takes two. A type does not change after it was made, and its hash does not either.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .after_import import Changes

__all__ = ["install", "uninstall"]

_HASH = "_habana_tf_hash"


def _wrap(module: ModuleType) -> None:
    kind: Any = module.FunctionType
    original = kind.__hash__

    def __hash__(self: Any) -> int:
        found: int | None = self.__dict__.get(_HASH)
        if found is None:
            found = self.__dict__[_HASH] = original(self)
        return found

    _changes.set(kind, "__hash__", __hash__)


_changes = Changes(["tensorflow.core.function.polymorphism.function_type"], _wrap)
install = _changes.install
"""Changes TensorFlow's types of functions."""
uninstall = _changes.uninstall
"""Gives them their own hash back."""
