"""Settings of Habana's bridge for PyTorch by functions: `get_pt_hpu_lazy_mode()`, `set_pt_compile_only_mode(True)`.

Each is an environment variable with a type and a default, of which the functions' names are made. What is set holds for
this process and those that it starts. `settings.habana` says of each variable that has no effect here why.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from habana_tf.settings import TF_ENABLE_DYNAMIC_SHAPES
from habana_tf.settings.bridge import ON, OTHERS
from habana_tf.settings.environment import kept
from habana_tf.torch.record import current

__all__ = ["env_setting", "get", "set_"]

_TRUE = ("1", "on", "true", "yes", "y", "t")


def get(name: str) -> bool | int | str:
    """The value of a variable now. Raises ValueError for a number that is none."""
    if name == "PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES":
        return TF_ENABLE_DYNAMIC_SHAPES.get()
    if name == "PT_HPU_LAZY_MODE":
        return int(current.recorder().lazy)
    text = os.environ.get(name, "").strip()
    default = OTHERS.get(name, name in ON)
    if not text:
        return default
    if isinstance(default, bool):
        return text.lower() in _TRUE
    return int(text, 0) if isinstance(default, int) else text


def set_(name: str, value: bool | int | str) -> None:
    """Gives a variable a value in this process."""
    text = str(int(value)) if isinstance(value, bool) else str(value)
    if name == "PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES":
        TF_ENABLE_DYNAMIC_SHAPES.set(text)
    os.environ[name] = text


@contextmanager
def env_setting(name: str, value: bool | int | str) -> Iterator[None]:
    """Gives a variable a value within. Raises ValueError for a name that is not one of Habana's bridge."""
    if not name.startswith("PT_"):
        raise ValueError(f"{name} is no setting of Habana's bridge for PyTorch: their names begin with PT_")
    with kept(name, TF_ENABLE_DYNAMIC_SHAPES.name):
        set_(name, value)
        yield


def __getattr__(name: str) -> Callable[..., Any]:
    """`get_` and `set_` of a variable. Raises AttributeError for another name."""
    verb, _, rest = name.partition("_")
    if verb in ("get", "set") and rest.startswith("pt_"):
        return functools.partial(get if verb == "get" else set_, rest.upper())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
