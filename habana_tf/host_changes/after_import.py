"""Import hooks: calls a function with a module, now if it is imported, else right after its import."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


def when_imported(name: str, change: Callable[[ModuleType], None]) -> None:
    """Calls `change` with the module of that name, once: now if it was imported, else right after its import."""
    module = sys.modules.get(name)
    if module is not None:
        change(module)
    elif not any(isinstance(f, _AfterImport) and (f.name, f.change) == (name, change) for f in sys.meta_path):
        sys.meta_path.insert(0, _AfterImport(name, change))


def cancel(name: str, change: Callable[[ModuleType], None]) -> None:
    """Takes back what waits for the import of a module."""
    sys.meta_path[:] = [
        f for f in sys.meta_path if not (isinstance(f, _AfterImport) and (f.name, f.change) == (name, change))
    ]


class _AfterImport(importlib.abc.MetaPathFinder):
    """A finder for one module: delegates to the other finders, and calls `change` after the module was executed. It
    stays installed until then, because programs also look for a spec only to see whether a module is installed."""

    def __init__(self, name: str, change: Callable[[ModuleType], None]) -> None:
        self.name = name
        self.change = change

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        behind = [f for f in sys.meta_path[sys.meta_path.index(self) + 1 :] if hasattr(f, "find_spec")]
        spec = next((found for f in behind if (found := f.find_spec(fullname, path, target)) is not None), None)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                if self in sys.meta_path:  # nobody has cancelled it
                    sys.meta_path.remove(self)
                    self.change(module)

            loader.exec_module = exec_module
        return spec
