"""`Setting`: an environment variable with a type, a default and a meaning, read and checked when it is used.

The kinds of values are here too, each a parser with the words for what it allows. `machine.py` and `program.py`
declare every variable with them.

Invariants: parsers get text without blanks at its ends, never empty, and raise ValueError for what is not allowed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

__all__ = [
    "BF16", "CHANGES", "COUNT", "FILE", "HOSTS", "LOGGER", "MODULE_ID", "MODULE_IDS", "NAMES", "PATH", "PER_NODE",
    "PORT", "PROFILE", "SWITCH", "TEXT", "USER", "Setting", "SettingError", "ValueKind", "choice", "integer", "shown",
]  # fmt: skip

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@contextmanager
def kept(*names: str) -> Iterator[None]:
    """Gives variables of the environment the values behind it that they have before."""
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, text in before.items():
            if text is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = text


class SettingError(ValueError):
    """An environment variable holds a value that is not allowed."""


class ValueKind(Generic[T_co]):
    """What a value may be. parse: makes it of non-empty text, or raises ValueError. allowed: in words what it takes."""

    def __init__(self, parse: Callable[[str], T_co], allowed: str) -> None:
        self.parse, self.allowed = parse, allowed


class Setting(Generic[T]):
    """One environment variable: default, kind and meaning. name: as the constant that it is (see `settings`).
    aliases: other names, tried in order after it; part: which entry of the first of them, a list with commas, it is."""

    name = ""

    def __init__(
        self, default: T, kind: ValueKind[T], meaning: str, aliases: tuple[str, ...] = (), part: int | None = None
    ) -> None:
        self.default, self.meaning = default, meaning
        self.parse, self.allowed = kind.parse, kind.allowed
        self.aliases, self.part = aliases, part

    def source(self) -> str | None:
        """The name under which the environment sets this variable now, or None when the default holds."""
        return next((name for name in (self.name, *self.aliases) if self._text(name)), None)

    def text(self) -> str:
        """What the environment says, empty where the default holds."""
        source = self.source()
        return "" if source is None else self._text(source)

    def _text(self, name: str) -> str:
        text = os.environ.get(name, "").strip()
        if self.part is None or name != self.aliases[0]:
            return text
        parts = text.split(",")
        return parts[self.part].strip() if self.part < len(parts) else ""

    def get(self) -> T:
        """The value now. Raises `SettingError` for text that is not allowed."""
        source = self.source()
        if source is None:
            return self.default
        text = self._text(source)
        try:
            return self.parse(text)
        except ValueError as error:
            hint = f"the default is {shown(self.default)}"
            raise SettingError(f"{source}={text!r} is not allowed: use {self.allowed} ({hint})") from error

    def set(self, text: str) -> None:
        """Has this process, and those that it starts, take a value from now on."""
        os.environ[self.name] = text


def shown(value: object) -> str:
    """A value as a user would type it."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value) or "unset"
    return str(value)


def choice(*choices: str) -> ValueKind[str]:
    """One of some words, in any case."""

    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(text)
        return text.lower()

    return ValueKind(parse, "one of " + ", ".join(choices))


def integer(low: int, high: int | None = None) -> ValueKind[int]:
    """A whole number from `low` to `high`, both included."""

    def parse(text: str) -> int:
        number = int(text)
        if number < low or (high is not None and number > high):
            raise ValueError(text)
        return number

    return ValueKind(parse, f"an integer from {low} to {high}" if high is not None else f"an integer of at least {low}")


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


def _changes(text: str) -> tuple[str, ...]:
    """Names as they are written, ("off",) for none, () for all. PyTorch's have its name in front."""
    if text.lower() in ("on", "off"):
        return () if text.lower() == "on" else ("off",)
    names = tuple(part.strip() for part in text.split(","))
    if not all(re.fullmatch(r"-?(torch\.)?[a-z]\w+", name) and name not in ("on", "off") for name in names):
        raise ValueError(text)
    return names


_ON, _OFF = ("1", "on", "true", "yes"), ("0", "off", "false", "no")


def _switch(text: str) -> bool:
    if text.lower() not in _ON + _OFF:
        raise ValueError(text)
    return text.lower() in _ON


def _bf16(text: str) -> str:
    """`off`, `full`, `basic`, or the path of a configuration."""
    if text.lower() in ("full", "basic"):
        return text.lower()
    return "full" if text.lower() in _ON[:3] else "off" if text.lower() in _OFF[:3] else os.path.expanduser(text)


def _logger(text: str) -> str:
    spelled = "all" if text.lower() in _ON[:3] else "off" if text.lower() in _OFF[:3] else text
    return choice("off", "all", "range", "range_hw").parse(spelled)


def _profile(text: str) -> str:
    return "off" if text.lower() in (*_OFF[:3], "profile_api_light") else "on"


BF16 = ValueKind(_bf16, "0, false, 1, true, full, basic or the path of a JSON configuration")
PROFILE = ValueKind(_profile, "0, 1, or the name of a template such as profile_api")
"""Habana's library set profile_api_light by itself where nobody had set anything, so that is no wish."""
LOGGER = ValueKind(_logger, "false, true, on, all, range or range_hw")
MODULE_ID = ValueKind(_number, "one module id such as 3")
COUNT = ValueKind(_number, "a number such as 3")
PER_NODE = ValueKind(_per_node, "numbers separated by commas, such as 2 or 4(x2),1")
PORT = integer(1024, 65535)
TEXT = ValueKind(str, "any text")
HOSTS = ValueKind(_hosts, "host names or addresses separated by commas")
MODULE_IDS = ValueKind(_module_ids, "different module ids separated by commas, such as 0,1,2,3")
USER = ValueKind(_number, "a user's number such as 1000")
NAMES = ValueKind(_names, "op types separated by commas, such as Conv2D,MatMul, or all_nodes")
CHANGES = ValueKind(
    _changes,
    "on, off, or names separated by commas, such as fork,torch.generator or -fork (`habana-tf info --changes` lists "
    "those of TensorFlow and Keras, with --framework torch those of PyTorch and Lightning)",
)
SWITCH = ValueKind(_switch, "on or off")
PATH = ValueKind(os.path.expanduser, "a directory")
FILE = ValueKind(os.path.expanduser, "the path of a file")
