"""`habana_frameworks.tensorflow`: the name under which scripts written for Gaudi know habana_tf.

What: every name and module of `habana_tf` under Habana's name; `habana_frameworks.tensorflow.ops.layer_norm` *is*
`habana_tf.ops.layer_norm`, one object with one state.

Why a package without a file around it: `habana_frameworks` has no `__init__`, so that it is a namespace and nothing
here makes `habana_frameworks.torch` look installed. Importing this imports no TensorFlow.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import habana_tf

_HERE = f"{__name__}."
_THERE = "habana_tf."


class _Alias(MetaPathFinder, Loader):
    """Finds a module of habana_tf under Habana's name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_HERE):
            return None
        there = importlib.util.find_spec(_THERE + fullname.removeprefix(_HERE))
        if there is None:
            return None
        return ModuleSpec(fullname, self, is_package=there.submodule_search_locations is not None)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(_THERE + spec.name.removeprefix(_HERE))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just given the module the alias's spec; it keeps its own.
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


if not any(isinstance(finder, _Alias) for finder in sys.meta_path):
    sys.meta_path.insert(0, _Alias())

__version__ = habana_tf.__version__
__all__ = habana_tf.__all__


def __getattr__(name: str) -> Any:
    try:
        return getattr(habana_tf, name)
    except AttributeError as error:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from error


def __dir__() -> list[str]:
    return dir(habana_tf)
