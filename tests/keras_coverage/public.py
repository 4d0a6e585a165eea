"""What Keras has: the public names of a module, each object once, under the longest of its names."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

HELPERS = {"get", "serialize", "deserialize"}
"""What modules have to make objects from configurations."""


def classes(module: Any, base: type) -> dict[str, type]:
    """The subclasses of `base` in a module, `base` itself left out."""
    found = {n: o for n, o in inspect.getmembers(module, inspect.isclass) if issubclass(o, base) and o is not base}
    return _once(found)


def functions(module: Any) -> dict[str, Any]:
    """The functions in a module, those that make objects from configurations left out."""
    return _once({n: f for n, f in inspect.getmembers(module, inspect.isfunction) if n not in HELPERS})


def _once(named: dict[str, Any]) -> dict[str, Any]:
    longest: dict[int, str] = {}
    for name, value in sorted(named.items(), key=lambda item: (len(item[0]), item[0])):
        longest[id(value)] = name
    return {name: named[name] for name in sorted(longest.values())}


def left_out(module: Any, cases: Iterable[str]) -> set[str]:
    """The public names of a module that stand for nothing a case is named after, its modules and helpers left out."""
    public = {name: value for name, value in inspect.getmembers(module) if not name.startswith("_")}
    covered = {id(public[name]) for name in cases if name in public}
    return {n for n, v in public.items() if id(v) not in covered and not inspect.ismodule(v)} - HELPERS
