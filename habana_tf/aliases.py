"""Every module has two names, `habana_tf.X` and `habana_frameworks.tensorflow.X`, and is one object under both.

What: a finder. The modules in `HABANAS` are real in `habana_frameworks.tensorflow`, where scripts written for Gaudi
look for them; all others are real in habana_tf. Asked for a module, or one below it, by its other name, the finder
gives the real one: same object, same state, its own `__name__` and `__spec__`.

Why a finder and not modules that import from each other: `import habana_tf.ops.layer_norm`, pickles that name
`habana_tf.ops.layer_norm`, `python -m` and a module's private names work by either name, and nothing can drift.

Invariants: a name is real in one place, so looking for it there never comes back here. Python asks finders under its
global import lock, so nothing is imported here for the first time: another thread may be in the middle of importing it,
and wait for that lock.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

__all__ = ["HABANAS", "Finder", "install", "real_name"]

HABANAS = frozenset(
    {"backward_compatible_optimizers", "habana_device", "habana_estimator", "habana_ops", "lib_utils",
     "library_loader", "media", "multinode_helpers", "ops", "optimizers", "py_synapse_logger", "setting",
     "synapse_logger_helpers", "sysconfig"}
)  # fmt: skip
"""What is in `habana_frameworks/tensorflow`."""
ELSEWHERE = {"bf16_config": "tensorflow.graph.bf16_config"}
"""Modules that Habana has under a name of its own, and where they are in habana_tf."""

_OURS = "habana_tf."
_THEIRS = "habana_frameworks.tensorflow."


def real_name(name: str) -> str | None:
    """The real name of a module, given another name; None for a real name, or a module of another package."""
    for here, there, is_theirs in ((_OURS, _THEIRS, True), (_THEIRS, _OURS, False)):
        if name.startswith(here):
            below = name[len(here) :]
            first, dot, rest = below.partition(".")
            if first in ELSEWHERE:
                return f"{_OURS}{ELSEWHERE[first]}{dot}{rest}"
            return there + below if (below.partition(".")[0] in HABANAS) is is_theirs else None
    return None


class Finder:
    """Finds modules by their other name."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The specification of the real module under the name asked for; None if there is none."""
        real = real_name(name)
        if real is None:
            return None
        found = find_spec(real)
        if found is None:
            return None
        loader: Any = _Loader(found)  # one by its methods
        spec = ModuleSpec(name, loader, origin=found.origin)
        spec.submodule_search_locations = found.submodule_search_locations
        spec.has_location = found.has_location
        return spec


class _Loader:
    """Gives the real module, imported if need be."""

    def __init__(self, real: ModuleSpec) -> None:
        self._real = real
        self._own: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._real.name)
        self._own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just given the module the other name's specification; it keeps its own.
        module.__spec__ = self._own

    def get_code(self, name: str) -> CodeType | None:
        """What `python -m` runs."""
        loader: Any = self._real.loader  # a file's, which has its code
        code: CodeType | None = loader.get_code(self._real.name)
        return code


def install() -> None:
    """Puts the finder before the others, once: the file finder would find `habana_tf.ops.layer_norm` a second time."""
    others = [finder for finder in sys.meta_path if getattr(finder, "__module__", None) != __name__]
    sys.meta_path[:] = [Finder, *others]
