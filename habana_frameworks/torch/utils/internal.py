"""Habana's questions about its own mode, which some libraries ask."""

import functools
from collections.abc import Callable
from typing import Any

from habana_tf.torch.loader import load

__all__ = ["is_lazy", "lazy_only"]


def is_lazy() -> bool:
    """Whether ops wait for mark_step()."""
    return load().lazy


def lazy_only(func: Callable[..., object]) -> Callable[..., None]:
    """A function that does what `func` does in lazy mode, and nothing in others; it returns nothing."""

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> None:
        if is_lazy():
            func(*args, **kwargs)

    return call
