"""Which modules there are, read from the installed files, so that none can be forgotten in a test.

This folder has no `__init__`: the folder above is on the path of programs in it, and a package here would hide the
namespace that is tested from them.
"""

from __future__ import annotations

from importlib.machinery import all_suffixes
from pathlib import Path

import habana_frameworks.tensorflow as htf
import habana_tf

OURS, THEIRS = "habana_tf", "habana_frameworks.tensorflow"
SUFFIXES = [each for each in all_suffixes() if each != ".so"]  # the libraries are no modules


def below(package: str) -> list[str]:
    """The modules below one of the two packages, without its name: `ops`, `ops.gelu`, ..."""
    root = Path({OURS: habana_tf, THEIRS: htf}[package].__file__ or "").parent
    found = set()
    for path in root.rglob("*"):
        suffix = next((each for each in SUFFIXES if path.name.endswith(each)), None)
        if suffix is None or "__pycache__" in path.parts:
            continue
        parts = [*path.relative_to(root).parent.parts, path.name.removesuffix(suffix)]
        found.add(".".join(parts).removesuffix("__init__").removesuffix("."))
    return sorted(found - {""})


HABANAS = below(THEIRS)
ALL = [(THEIRS, name) for name in HABANAS] + [(OURS, name) for name in below(OURS)]
"""(the package where it is real, its name below that)"""
