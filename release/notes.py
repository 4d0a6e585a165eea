"""Prints the notes of a release: its section of CHANGELOG.md.

python -m release.notes 0.1.0
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).resolve().parents[1] / "CHANGELOG.md"


def notes(changelog: str, version: str) -> str:
    """The section of a version, without its heading. Raises KeyError where there is none."""
    found = re.search(rf"^## {re.escape(version)}\b.*\n((?:(?!## ).*\n?)*)", changelog, re.MULTILINE)
    if found is None:
        raise KeyError(f"CHANGELOG.md has no section '## {version}'")
    return found[1].strip() + "\n"


if __name__ == "__main__":
    print(notes(CHANGELOG.read_text(), sys.argv[1]), end="")
