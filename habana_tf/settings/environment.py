"""`Setting`: an environment variable with a type, a default and a meaning, read and checked when it is used.

The parsers of all kinds of values are here too, each beside the words for what it allows. `machine.py` and `program.py`
declare every variable with them.

Invariants: parsers get text without blanks at its ends, never empty, and raise ValueError for what is not allowed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

__all__ = [
    "COUNT",
    "FILE",
    "HOSTS",
    "LOGGER",
    "MODULE_ID",
    "MODULE_IDS",
    "NAMES",
    "PATH",
    "PER_NODE",
    "PORT",
    "PROFILE",
    "SWITCH",
    "TEXT",
    "USER",
    "Setting",
    "SettingError",
    "bf16",
    "choice",
    "integer",
    "shown",
]

T = TypeVar("T")


class SettingError(ValueError):
    """An environment variable holds a value that is not allowed."""


class Setting(Generic[T]):
    """One environment variable, with the name of the constant that it is (see `name`).

    parse: turns non-empty text into the value, or raises ValueError. allowed: what it accepts, in words. key: whether
    the value is in every recipe's key. aliases: older names.
    """

    name: str

    def __init__(
        self, default: T, parse: Callable[[str], T], allowed: str, meaning: str, key: bool = False,
        aliases: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.default = default
        self.parse = parse
        self.allowed = allowed
        self.meaning = meaning
        self.key = key
        self.aliases = aliases

    def source(self) -> str | None:
        """The name under which the environment sets this variable now, or None when the default holds."""
        return next((name for name in (self.name, *self.aliases) if os.environ.get(name, "").strip()), None)

    def get(self) -> T:
        """The value now. Raises `SettingError` for text that is not allowed."""
        source = self.source()
        if source is None:
            return self.default
        text = os.environ[source].strip()
        try:
            return self.parse(text)
        except ValueError as error:
            hint = f"the default is {shown(self.default)}"
            raise SettingError(f"{source}={text!r} is not allowed: use {self.allowed} ({hint})") from error


def name(constants: Mapping[str, object]) -> None:
    """Names the settings of a module after their constants."""
    for constant, value in constants.items():
        if isinstance(value, Setting):
            value.name = constant


def shown(value: object) -> str:
    """A value as a user would type it."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value) or "unset"
    return str(value)


def choice(*choices: str) -> tuple[Callable[[str], str], str]:
    """One of some words, in any case."""

    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(text)
        return text.lower()

    return parse, "one of " + ", ".join(choices)


def integer(low: int, high: int | None = None) -> tuple[Callable[[str], int], str]:
    """A whole number from `low` to `high`, both included."""

    def parse(text: str) -> int:
        number = int(text)
        if number < low or (high is not None and number > high):
            raise ValueError(text)
        return number

    return parse, f"an integer from {low} to {high}" if high is not None else f"an integer of at least {low}"


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)


def _module_ids(text: str) -> tuple[int, ...]:
    """Unique module ids in the order given."""
    ids = tuple(_number(part.strip()) for part in text.split(","))
    if len(set(ids)) != len(ids):
        raise ValueError(text)
    return ids


def _hosts(text: str) -> tuple[str, ...]:
    """Names in the order given."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _per_node(text: str) -> tuple[int, ...]:
    """SLURM's list: "2,4(x3)" is 2,4,4,4."""
    counts: list[int] = []
    for part in text.split(","):
        count, _, times = part.partition("(x")
        counts += [_number(count)] * (_number(times.removesuffix(")")) if times else 1)
    return tuple(counts)


def _names(text: str) -> tuple[str, ...]:
    """Sorted unique names, so that two spellings of one list are one value."""
    return tuple(sorted({part.strip() for part in text.split(",") if part.strip()}))


def _switch(text: str) -> bool:
    if text.lower() in ("1", "on", "true", "yes"):
        return True
    if text.lower() in ("0", "off", "false", "no"):
        return False
    raise ValueError(text)


def _path(text: str) -> str | None:
    return os.path.expanduser(text)


def bf16(text: str) -> str:
    """`off`, `full`, `basic`, or the path of a configuration."""
    spellings = {"0": "off", "off": "off", "false": "off", "1": "full", "on": "full", "true": "full", "full": "full"}
    if text.lower() in (*spellings, "basic"):
        return spellings.get(text.lower(), "basic")
    return os.path.expanduser(text)


def _logger(text: str) -> str:
    spellings = {"false": "off", "0": "off", "off": "off", "true": "all", "1": "all", "on": "all"}
    return spellings.get(text.lower()) or choice("all", "range", "range_hw")[0](text)


def _profile(text: str) -> str:
    spellings = {"false": "off", "0": "off", "off": "off", "profile_api_light": "off", "true": "on", "1": "on",
                 "on": "on"}  # fmt: skip
    return spellings.get(text.lower(), "on")


PROFILE = (_profile, "0, 1, or the name of a template such as profile_api")
"""Habana's library set profile_api_light by itself where nobody had set anything, so that is no wish."""
LOGGER = (_logger, "false, true, on, all, range or range_hw")
MODULE_ID: tuple[Callable[[str], int | None], str] = (_number, "one module id such as 3")
COUNT: tuple[Callable[[str], int | None], str] = (_number, "a number such as 3")
PER_NODE = (_per_node, "numbers separated by commas, such as 2 or 4(x2),1")
PORT: tuple[Callable[[str], int | None], str] = integer(1024, 65535)
TEXT: tuple[Callable[[str], str | None], str] = (str, "any text")
HOSTS = (_hosts, "host names or addresses separated by commas")
MODULE_IDS = (_module_ids, "different module ids separated by commas, such as 0,1,2,3")
USER: tuple[Callable[[str], int | None], str] = (_number, "a user's number such as 1000")
NAMES = (_names, "op types separated by commas, such as Conv2D,MatMul, or all_nodes")
SWITCH = (_switch, "on or off")
PATH = (_path, "a directory")
FILE = (_path, "the path of a file")
