"""Names that tests and the programs beside them take from a module are there: mypy reads the package only.

Some of these programs are run by no test, and a private name is often used where a failure would be expected.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@cache
def _file(module: str) -> Path | None:
    path = ROOT.joinpath(*module.split("."))
    return next(
        (p for p in (path.with_suffix(".py"), path.with_suffix(".pyi"), path / "__init__.py") if p.exists()), None
    )


@cache
def _nodes(file: Path) -> list[ast.AST]:
    kept = ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Name, ast.Attribute
    return [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, kept)]


@cache
def _names(file: Path) -> frozenset[str]:
    """What a module may define, anywhere in it; "__getattr__" if any name may be found there."""
    found: set[str] = set()
    for node in _nodes(file):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return frozenset(found)


def _missing(file: Path) -> Iterator[str]:
    modules: dict[str, Path] = {}
    for node in _nodes(file):
        source = _file(node.module) if isinstance(node, ast.ImportFrom) and node.module else None
        if source is None or "__getattr__" in _names(source):
            continue
        for alias in node.names:
            module = _file(f"{node.module}.{alias.name}")
            if module is not None:
                modules[alias.asname or alias.name] = module
            elif alias.name not in _names(source) and not (source.parent / alias.name).is_dir() and alias.name != "*":
                yield f"{file.relative_to(ROOT)}:{node.lineno}: {node.module} has no {alias.name}"
    for node in _nodes(file):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            module = modules[node.value.id]
            private = re.fullmatch("_[a-zA-Z]\\w*[^_]", node.attr)
            if private and node.attr not in _names(module):
                yield f"{file.relative_to(ROOT)}:{node.lineno}: {module.relative_to(ROOT)} has no {node.attr}"


def test_every_name_taken_from_a_module_is_there() -> None:
    files = [file for folder in ("tests", "examples") for file in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 300
    assert [each for file in files for each in _missing(file)] == []
