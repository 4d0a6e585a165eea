"""Types of numeric arguments, each with bounds.

argparse shows the message of an ArgumentTypeError with the option's name. Python's own `float` accepts nan and inf, and
`int` any number of digits, with which a command would fail much later or never end.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

MOST = 2**31 - 1
"""Of what is only counted or compared."""


def whole(low: int, high: int = MOST) -> Callable[[str], int]:
    """A whole number from `low` to `high`, both included."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number from {low} to {high}")
        return number

    return parse


def seconds(most: float, least: float = 0.0) -> Callable[[str], float]:
    """A time of `least` to `most` seconds."""

    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not least <= number <= most:  # nan neither
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number of seconds from {least:g} to {most:g}")
        return number

    return parse
