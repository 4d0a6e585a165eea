"""The names in the code of a function (globals, attributes, imports), and which modules are libraries."""

from __future__ import annotations

import dis
import importlib
import importlib.util
import sys
import types
from collections.abc import Iterator

OURS = frozenset({"habana_tf", "habana_frameworks"})
_LIBRARIES = frozenset({"numpy", "tensorflow", "keras", "tf_keras", "ml_dtypes", "scipy", "llvmlite"})


def top_level(module: str | None) -> str:
    return (module or "").partition(".")[0]


def library_of(module: str | None) -> tuple[str, str] | None:
    """Name and version of a module that is followed no further; None for one that belongs to the program."""
    top = top_level(module)
    if top in OURS or top == "builtins":
        return str(module), ""
    if top != "__main__" and top in sys.stdlib_module_names:
        return str(module), "python"
    if top in _LIBRARIES:
        return str(module), str(getattr(sys.modules.get(top), "__version__", ""))
    return None


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Code and the functions in it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _codes(each)


def names_in(code: types.CodeType) -> list[str]:
    """Globals and attributes that code names."""
    return [name for each in _codes(code) for name in each.co_names]


def globals_of(code: types.CodeType) -> list[str]:
    """The globals that code reads, sorted."""
    found = {
        step.argval
        for each in _codes(code)
        for step in dis.get_instructions(each)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    return sorted(found)


def imports(function: types.FunctionType) -> list[tuple[str, types.ModuleType | None]]:
    """The modules that a function imports within it, by name; None for one that is not installed."""
    out: dict[str, types.ModuleType | None] = {}
    package = function.__globals__.get("__package__")
    for code in _codes(function.__code__):
        steps = list(dis.get_instructions(code))
        for k, step in enumerate(steps):
            if step.opname == "IMPORT_NAME":
                level, parts = steps[k - 2].argval, steps[k - 1].argval
                dots = "." * level if isinstance(level, int) else ""
                name, module = _imported(dots + step.argval, package)
                out[name] = module
                if not parts and "." in name:  # `import a.b` names a
                    top = top_level(name)
                    out[top] = _imported(top, None)[1]
                for part in parts or ():  # what is no attribute yet may be a module of a package
                    if module is not None and part != "*" and not hasattr(module, part):
                        _imported(f"{name}.{part}", None)
    return sorted(out.items(), key=lambda item: item[0])


def _imported(name: str, package: str | None) -> tuple[str, types.ModuleType | None]:
    """A module and its whole name."""
    try:
        whole = importlib.util.resolve_name(name, package)
        return whole, importlib.import_module(whole)
    except ImportError:
        return name, None
