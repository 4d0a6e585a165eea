"""How commands print: tables for people, JSON for programs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from habana_tf.reports.characters import columns as columns_of_output
from habana_tf.reports.characters import encoding_of
from habana_tf.reports.table import Table

FILE_WIDTH = 200
"""A file or a pipe has no width: lines there are as long as they need to be, up to this."""
STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35",
          "cyan": "36"}  # fmt: skip


class CommandError(Exception):
    """A command cannot do what was asked; the text goes to the user and `code` is the exit code. more: lines below."""

    def __init__(self, message: str, code: int, more: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.more = more


def command_error(error: Exception) -> CommandError:
    """What any command may meet, settings, cards and the machine, as its error. Raises another error again. Their
    classes are imported here, where one was raised, because a command should begin at once."""
    from habana_tf.hardware.cards import CardError
    from habana_tf.hardware.cpu import IsaError
    from habana_tf.hardware.machine import MachineError
    from habana_tf.hardware.ranks import RankError
    from habana_tf.settings import SettingError

    if isinstance(error, CommandError):
        return error
    if isinstance(error, MachineError):
        return CommandError(str(error), 1)
    if isinstance(error, SettingError | CardError | RankError | IsaError):
        return CommandError(str(error), 2)
    raise error


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


def print_report(arguments: Any, report: Any) -> int:
    """A report, as `--json` says; the exit code of the command."""
    if arguments.json:
        print_json(report.to_dict())
    else:
        print(report)
    return 0


def write_file(path: str, data: bytes) -> None:
    """Writes a file that the user named. Raises CommandError."""
    try:
        with open(path, "wb") as out:
            out.write(data)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}", 1) from error


def in_colour() -> bool:
    """Whether standard output is a terminal that shows colours, and the user wants them (see no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str, style: str) -> str:
    """`text` in a style of `STYLES`, where colours are shown."""
    return f"\033[{STYLES[style]}m{text}\033[0m" if in_colour() and text else text


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table as wide as the terminal (see `reports.table`)."""
    lines = Table(columns, rows).lines(columns_of_output(FILE_WIDTH), encoding_of(), painted if in_colour() else None)
    sys.stdout.write("".join(f"{line}\n" for line in lines))


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
