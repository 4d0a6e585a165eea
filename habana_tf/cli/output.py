"""How commands print: tables for people, JSON for programs, and numbers with units."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any


class CommandError(Exception):
    """A command cannot do what was asked; the text goes to the user and `code` is the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def print_json(data: object) -> None:
    """`data` as indented JSON."""
    import json

    json.dump(data, sys.stdout, indent=2)
    sys.stdout.write("\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table; cells wrap, nothing is cut off. A column whose name starts with ">" is aligned to the right, and
    without any name there is no heading."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_header=any(columns))
    for column in columns:
        table.add_column(column.lstrip(">"), justify="right" if column.startswith(">") else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    # A file or a pipe has no width: lines there are as long as they need to be, up to a limit.
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    with console.capture() as captured:
        console.print(table)
    # Written by ourselves: rich ends the process when the reader has gone.
    sys.stdout.writelines(line.rstrip() + "\n" for line in captured.get().splitlines())


def size(number: float) -> str:
    """Bytes, in the binary unit that suits."""
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"


def duration(seconds: float) -> str:
    """A time span in milliseconds or seconds."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def moment(seconds: float) -> str:
    """Seconds since the epoch as local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def tensor(described: Any) -> str:
    """A header's {"dtype": "float32", "shape": [2, 3]} as float32[2,3]."""
    if not isinstance(described, dict):
        return str(described)
    shape = described.get("shape")
    extents = ",".join(str(extent) for extent in shape) if isinstance(shape, list) else "?"
    return f"{described.get('dtype', '?')}[{extents}]"
