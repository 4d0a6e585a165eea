"""The releases of PyTorch that this version is tested with; told without importing it."""

from __future__ import annotations

import re

TESTED = ((2, 10), (2, 14))
"""First and last."""


def is_tested(number: str) -> bool:
    """Whether a version, such as 2.13.0+cpu, is of these releases."""
    found = tuple(int(part) for part in re.findall(r"\d+", number)[:2])
    return TESTED[0] <= found <= TESTED[1]


def said() -> str:
    """2.10 to 2.14"""
    return " to ".join(".".join(map(str, release)) for release in TESTED)
