"""Programs beside the tests, which no test runs, import names that there are: mypy reads the package only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def _file(module: str) -> Path | None:
    path = ROOT.joinpath(*module.split("."))
    return next(
        (p for p in (path.with_suffix(".py"), path.with_suffix(".pyi"), path / "__init__.py") if p.exists()), None
    )


@cache
def _names(file: Path) -> frozenset[str]:
    """What a module may define, anywhere in it; "__getattr__" if any name may be found there."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return frozenset(found)


def _missing(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        source = _file(node.module)
        names = _names(source) if source is not None else frozenset()
        if source is None or "__getattr__" in names:
            continue
        for name in (alias.name for alias in node.names):
            known = name in names or name == "*" or (source.parent / name).is_dir()
            if not known and _file(f"{node.module}.{name}") is None:
                yield f"{file.relative_to(ROOT)}:{node.lineno}: {node.module} has no {name}"


def test_every_name_imported_from_these_sources_is_there() -> None:
    files = [file for folder in ("tests", "examples") for file in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 300
    assert [each for file in files for each in _missing(file)] == []
