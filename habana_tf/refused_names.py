"""Stand-ins for packages of Habana's that are not here: their names can be imported, and a call of one is refused.

Libraries import such packages at their top and use them for a few of their parts. Any name of such a package, also of
its submodules at any depth, is a class that can be subclassed and asked about (`isinstance`); to call it, which makes
an object, raises RuntimeError with the name and what to use in its place.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

__all__ = ["attributes", "submodules"]


class _Refusing(type):
    """The class of such classes. path: the name in its package; instead: what to do."""

    path: str
    instead: str

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            return super().__getattribute__(name)  # raises: it has none
        return _refused(f"{cls.path}.{name}", cls.instead)

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"{cls.path} is not part of the simulated card: {cls.instead}")


@functools.cache  # a name is one object, as where it is a key or is compared
def _refused(path: str, instead: str) -> Any:
    return _Refusing(path.rpartition(".")[2], (), {"path": path, "instead": instead})


def attributes(package: str, instead: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module whose names are all refused. instead: what to do, for the error."""

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return _refused(f"{package}.{name}", instead)

    return __getattr__


class _Submodules:
    """Finds any module below a package, as one whose names are refused."""

    def __init__(self, package: str, instead: str) -> None:
        self.package, self.instead = package, instead

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        loader: Any = self  # one by its methods
        return ModuleSpec(name, loader, is_package=True) if name.startswith(f"{self.package}.") else None

    def create_module(self, spec: ModuleSpec) -> None:
        """None: the usual module."""

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__getattr__"] = attributes(module.__name__, self.instead)


def submodules(package: str, instead: str) -> None:
    """Has every module below a package found."""
    sys.meta_path.append(_Submodules(package, instead))
