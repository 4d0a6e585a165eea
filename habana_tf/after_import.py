"""Changes a module that may not be imported yet: now, or as soon as it is."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

__all__ = ["Changes", "cancel", "when_imported"]


def when_imported(name: str, change: Callable[[ModuleType], None]) -> None:
    """Calls `change` with the module of that name, once: now if it was imported, else right after its import."""
    module = sys.modules.get(name)
    if module is not None:
        change(module)
    elif not any(isinstance(f, _AfterImport) and (f.name, f.change) == (name, change) for f in sys.meta_path):
        sys.meta_path.insert(0, _AfterImport(name, change))


def cancel(name: str) -> None:
    """Takes back what waits for the import of a module."""
    sys.meta_path[:] = [f for f in sys.meta_path if not (isinstance(f, _AfterImport) and f.name == name)]


class Changes:
    """Attributes of modules, or of what is in them, that get other values once their module is imported.

    modules: their names. change: makes the changes in one of them, each by `set`.
    """

    def __init__(self, modules: Iterable[str], change: Callable[[ModuleType], None]) -> None:
        self._modules, self._change = tuple(modules), change
        self._before: list[tuple[Any, str, Any]] = []
        self._changed: set[str] = set()

    def install(self) -> None:
        """Changes what is imported, and the rest as soon as it is. A second call does nothing."""
        for name in self._modules:
            when_imported(name, self._once)

    def uninstall(self) -> None:
        """Gives everything its own value back."""
        for name in self._modules:
            cancel(name)
        while self._before:
            owner, name, value = self._before.pop()
            setattr(owner, name, value)
        self._changed.clear()

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Gives an attribute another value."""
        self._before.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def _once(self, module: ModuleType) -> None:
        if module.__name__ not in self._changed:
            self._changed.add(module.__name__)
            self._change(module)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds one module as the other finders do, and changes it once it has been executed. Until then it stays: programs
    ask for a module's spec to see whether it is installed, too."""

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
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                if self in sys.meta_path:  # nobody has cancelled it
                    sys.meta_path.remove(self)
                    self.change(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # of this one
        return spec
