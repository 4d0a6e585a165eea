"""Whether this process has the device HPU: the loader says so, everybody else asks here."""

from __future__ import annotations

__all__ = ["is_loaded", "set_loaded"]

_loaded = False


def is_loaded() -> bool:
    """Whether `load_habana_module()` has succeeded in this process."""
    return _loaded


def set_loaded() -> None:
    """The device is there from now on: TensorFlow unloads none."""
    global _loaded
    _loaded = True
