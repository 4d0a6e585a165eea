"""Keras 2 as TensorFlow 2.15 has it, and as a package of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from habana_tf.host_changes.change import Change

ONLY = "Keras 2"
_PACKAGES = ("keras.src", "tf_keras.src")


def changes(module: str, attribute: str, make: Callable[[Any], Any]) -> tuple[Change, ...]:
    """The change of an attribute in both packages."""
    return tuple(Change(f"{package}.{module}", attribute, make) for package in _PACKAGES)
