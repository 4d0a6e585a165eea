"""How commands print: tables for people, JSON for programs, numbers with units.

Tables are laid out here and not by rich, which takes half a second for two hundred lines, longer than most commands.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from habana_tf.files.escaped import escaped

FILE_WIDTH = 200
"""A file or a pipe has no width: lines there are as long as they need to be, up to this."""
_GAP = "   "
_LEAST_COLUMN = 12
STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35",
          "cyan": "36"}  # fmt: skip


class CommandError(Exception):
    """A command cannot do what was asked; the text goes to the user and `code` is the exit code. more: lines below."""

    def __init__(self, message: str, code: int, more: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.more = more


class Styled(str):
    """A cell in a style of `STYLES`."""

    style: str

    def __new__(cls, text: str, style: str) -> Styled:
        made = super().__new__(cls, text)
        made.style = style
        return made


def print_json(data: object) -> None:
    """`data` as JSON: mappings are indented, and each item of a list has a line.

    Not by `indent` of json, which is written in Python: it takes seconds for a thousand recipes, this a tenth of one.
    """
    import json

    def lines(value: object, indent: str) -> str:
        inner = indent + "  "
        if isinstance(value, dict) and value:
            rows = [f"{json.dumps(str(name))}: {lines(item, inner)}" for name, item in value.items()]
            return f"{{\n{inner}" + f",\n{inner}".join(rows) + f"\n{indent}}}"
        if isinstance(value, list | tuple) and value:
            return f"[\n{inner}" + f",\n{inner}".join(map(json.dumps, value)) + f"\n{indent}]"
        return json.dumps(value)

    sys.stdout.write(lines(data, "") + "\n")


def in_colour() -> bool:
    """Whether standard output is a terminal that shows colours, and the user wants them (see no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str, style: str) -> str:
    """`text` in a style of `STYLES`, where colours are shown."""
    return f"\033[{STYLES[style]}m{text}\033[0m" if in_colour() and text else text


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table; cells wrap, nothing is cut off. A column whose name starts with ">" is aligned to the right, and
    without any name there is no heading."""
    cells = [[printable(cell) for cell in row] for row in rows]
    right = [column.startswith(">") for column in columns]
    heading = [column.lstrip(">") for column in columns]
    width = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else FILE_WIDTH
    widths = _widths([heading, *cells] if cells or any(heading) else [], len(columns), width)
    rows = cells
    if any(heading):
        rows = [[Styled(name, "bold") for name in heading], [Styled("─" * n, "dim") for n in widths], *cells]
    colour = in_colour()
    lines = [_line(line, widths, right, colour) for row in rows for line in _lines(row, widths)]
    sys.stdout.write("".join(lines))


def _widths(rows: list[list[str]], columns: int, most: int) -> list[int]:
    """Of each column; the widest give way where all together are wider than `most`."""
    widths = [max((len(row[k]) for row in rows), default=0) for k in range(columns)]
    over = sum(widths) + len(_GAP) * (columns - 1) - most
    while over > 0 and max(widths) > _LEAST_COLUMN:
        widest = widths.index(max(widths))
        second = max([n for k, n in enumerate(widths) if k != widest], default=0)
        cut = min(over, max(widths[widest] - max(second, _LEAST_COLUMN), 1))
        widths[widest] -= cut
        over -= cut
    return widths


def _lines(row: Sequence[str], widths: Sequence[int]) -> list[Sequence[str]]:
    """A row as one line, or as several where a cell is wider than its column."""
    if all(len(cell) <= width for cell, width in zip(row, widths, strict=True)) and "\n" not in "".join(row):
        return [row]
    parts = [_wrapped(cell, n) for cell, n in zip(row, widths, strict=True)]
    lines = [[part[k] if k < len(part) else "" for part in parts] for k in range(max(map(len, parts)))]
    return [[_like(cell, text) for cell, text in zip(row, line, strict=True)] for line in lines]


def _wrapped(cell: str, width: int) -> list[str]:
    """A cell in lines of at most `width`, broken at blanks where possible."""
    lines = []
    for text in cell.split("\n"):
        while len(text) > width:
            at = text.rfind(" ", 1, width + 1)
            at = at if at > width // 3 else width
            lines.append(text[:at])
            text = text[at:].lstrip(" ")
        lines.append(text)
    return lines


def printable(cell: str) -> str:
    """Without what would steer a terminal: names come from files. Lines stay lines."""
    return cell if cell.isprintable() else _like(cell, escaped(cell, keep="\n"))


def _like(cell: str, text: str) -> str:
    return Styled(text, cell.style) if isinstance(cell, Styled) else text


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], colour: bool) -> str:
    out = []
    for cell, width, to_right in zip(cells, widths, right, strict=True):
        text = cell.rjust(width) if to_right else cell.ljust(width)
        if colour and isinstance(cell, Styled):
            text = text.replace(cell, painted(cell, cell.style), 1)
        out.append(text)
    return _GAP.join(out).rstrip() + "\n"


def size(number: float) -> str:
    """Bytes, in the binary unit that suits."""
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"


def operations(number: float) -> str:
    """A number of operations, in the decimal unit that suits."""
    for unit in ("", " K", " M", " G"):
        if number < 1000:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.3g} T"


def duration(seconds: float) -> str:
    """A time span in milliseconds, seconds, or minutes and more."""
    if seconds < 120:
        return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def brief(seconds: float) -> str:
    """A time that is short, in nanoseconds to seconds, to three digits."""
    for unit, factor in (("ns", 1e9), ("µs", 1e6), ("ms", 1e3)):
        if float(f"{seconds * factor:.3g}") < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def amount(value: int | str, form: Callable[[float], str]) -> str:
    """A number in the form of a function above; the text that stands for one over open sizes as it is."""
    return form(value) if isinstance(value, int) else value


def counted(counts: Mapping[str, int]) -> str:
    """2 MatMul, Relu"""
    return ", ".join(name if n == 1 else f"{n} {name}" for name, n in counts.items())


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
