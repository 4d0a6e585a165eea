"""Which test to open for a module: `python -m tests.which habana_tf/resolver/recompilation_tables.py` names its files.

1. The file of its stem in the folder that mirrors its own: tests/A/test_b.py for habana_tf/A/b.py.
2. Without one, the tests that import it, those in that folder first.
3. Without these, it is a piece of other modules, and tested where they are: the tests of the modules that import it.
4. What nobody imports by its name is loaded by its package: the tests that import the package.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = "habana_tf", "habana_frameworks"
STARTED = {
    "habana_frameworks/autoload.py": "tests/torch/test_hpu.py",
    "habana_tf/__main__.py": "tests/test_main.py",
    "habana_tf/cli/__main__.py": "tests/cli/test_main.py",
}
"""What Python or PyTorch starts, and its tests."""

_NAME = re.compile(rf"\b(?:{'|'.join(PACKAGES)})(?:\.\w+)*")
_FROM = re.compile(rf"\bfrom ((?:{'|'.join(PACKAGES)})(?:\.\w+)*) import (\([^)]*\)|[^\n;\\]*)")


def modules() -> list[Path]:
    """The modules of the package, as paths from the root. Files `__init__` are not asked for."""
    found = (path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return sorted(path for path in found if path.name != "__init__.py")


@cache
def _names(file: Path) -> frozenset[str]:
    """The modules that a file names, and all packages they are in. By its text: tests have programs in strings."""
    text = file.read_text()
    found = {*_NAME.findall(text)}
    for package, names in _FROM.findall(text):
        found.update(f"{package}.{name}" for name in re.findall(r"\w+", names))
    return frozenset(name.rsplit(".", k)[0] for name in found for k in range(name.count(".") + 1))


@cache
def _files(folder: str, pattern: str) -> list[Path]:
    return sorted((ROOT / folder).rglob(pattern))


def _mirrored(module: Path) -> Path:
    """The folder of tests that mirrors a module's."""
    parts = module.parts[1:-1] if module.parts[0] == PACKAGES[0] else module.parts[:-1]
    return ROOT.joinpath("tests", *parts)


def _naming(name: str, files: Iterable[Path]) -> list[Path]:
    return [file for file in files if name in _names(file)]


def _of_its_own(module: Path) -> list[Path]:
    """By the first two rules."""
    folder = _mirrored(module)
    same = folder / f"test_{module.stem}.py"
    found = [same] if same.exists() else _naming(_dotted(module), _files("tests", "test_*.py"))
    return sorted(found, key=lambda test: (folder not in test.parents, test))


def _dotted(module: Path) -> str:
    return ".".join(module.with_suffix("").parts).removesuffix(".__init__")


def files_for(module: Path) -> list[Path]:
    """The files of tests to open for a module, the nearest first; module: its path from the root."""
    if module.as_posix() in STARTED:
        return [ROOT / STARTED[module.as_posix()]]
    seen, front = {module}, [module]
    while front:
        found = dict.fromkeys(test for each in front for test in _of_its_own(each))
        if found:
            return [*found]
        sources = [file for package in PACKAGES for file in _files(package, "*.py")]
        users = (file.relative_to(ROOT) for each in front for file in _naming(_dotted(each), sources))
        front = [user for user in dict.fromkeys(users) if user not in seen]
        seen.update(front)
    return _of_its_own(module.parent / "__init__.py")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        if not (ROOT / argument).is_file():
            raise SystemExit(f"{argument} is no file from {ROOT} on")
        print(*(test.relative_to(ROOT) for test in files_for(Path(argument))), sep="\n")
