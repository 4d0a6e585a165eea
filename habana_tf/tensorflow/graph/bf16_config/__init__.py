"""Which ops the bf16 conversion converts: the lists, built in or from a user's JSON file.

What: `active()` reads `TF_BF16_CONVERSION` and returns the configuration it asks for, or None when the conversion is
off. `full.json` and `basic.json` beside this file are the two built-in ones, in the format of users' files:

    {"allowlist": ["MatMul", ...],               always bf16
     "conditional_list": ["Reshape", ...],       bf16 if an input or an output neighbour is
     "strict_conditional_list": ["AddV2", ...],  bf16 if all floating-point inputs are
     "non_convertible_exceptions": [["regular expression of the node's name", "op type, or empty for any"], ...],
     "convertible_exceptions": [...]}            same form: stays fp32, or is converted, whatever the lists say

Invariants: read when a graph is processed, so scripts may set the variable at any time. Every key may be missing;
older spellings of keys are accepted. What is in no list stays fp32. An op in two lists is in the more permissive one.
A name in both kinds of exceptions stays fp32. The content of the two built-in lists is that of Habana's releases 1.2
to 1.14, names of ops that only Habana's own bridge has included.
"""

from __future__ import annotations

import json
import logging
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from habana_tf import settings

__all__ = ["BUILT_IN", "Config", "ConfigError", "Rule", "active", "built_in", "dump", "parse", "using"]

_SPELLINGS = {
    "allowlist": ("allowlist", "allow_list", "whitelist", "white_list"),
    "conditional_list": ("conditional_list", "graylist", "gray_list"),
    "strict_conditional_list": ("strict_conditional_list",),
    "non_convertible_exceptions": ("non_convertible_exceptions",),
    "convertible_exceptions": ("convertible_exceptions",),
}
BUILT_IN = ("full", "basic")
"""The configurations that come with the package: an op that a program brings says itself which list it is in."""
_LISTS = ("allowlist", "conditional_list", "strict_conditional_list")
_CALLS = re.compile(r"((Stateful)?PartitionedCall(_\d+)?/)+")
"""What TensorFlow puts before the names of a called function's nodes when it inlines the function."""


class ConfigError(settings.SettingError):
    """A bf16 configuration cannot be read; the message names the file and the key."""


@dataclass(frozen=True)
class Rule:
    """One exception: nodes whose whole name matches `pattern`, of type `op` (empty: any)."""

    pattern: re.Pattern[str]
    op: str

    def matches(self, name: str, op: str) -> bool:
        if self.op and self.op != op:
            return False
        return any(self.pattern.fullmatch(text) for text in (name, _CALLS.sub("", name, count=1)))


@dataclass(frozen=True)
class Config:
    """A configuration. source: `full`, `basic`, or the path of a file."""

    source: str
    allow: frozenset[str] = frozenset()
    conditional: frozenset[str] = frozenset()
    strict: frozenset[str] = frozenset()
    keep: tuple[Rule, ...] = field(default=())
    force: tuple[Rule, ...] = field(default=())

    def to_json(self) -> str:
        """The configuration as a file that `TF_BF16_CONVERSION` accepts."""
        lists = dict(zip(_LISTS, (self.allow, self.conditional, self.strict), strict=True))
        data: dict[str, Any] = {key: sorted(ops) for key, ops in lists.items()}
        data["non_convertible_exceptions"] = [[rule.pattern.pattern, rule.op] for rule in self.keep]
        data["convertible_exceptions"] = [[rule.pattern.pattern, rule.op] for rule in self.force]
        return json.dumps(data, indent=2) + "\n"


class _Instead(threading.local):
    """What holds in this thread whatever the setting says."""

    config: Config | None = None
    holds = False


_instead = _Instead()


@contextmanager
def using(config: Config | None) -> Iterator[None]:
    """Within it, this thread converts by `config`, or not at all, whatever `TF_BF16_CONVERSION` says."""
    before = _instead.config, _instead.holds
    _instead.config, _instead.holds = config, True
    try:
        yield
    finally:
        _instead.config, _instead.holds = before


def built_in(name: str) -> Config:
    """`full` or `basic`."""
    return parse(resources.files(__name__).joinpath(f"{name}.json").read_text("utf-8"), name)


def active() -> Config | None:
    """The configuration that `TF_BF16_CONVERSION` asks for now, or None. Raises ConfigError."""
    if _instead.holds:
        return _instead.config
    choice = settings.TF_BF16_CONVERSION.get()
    if choice == "off":
        return None
    if choice in BUILT_IN:
        return built_in(choice)
    try:
        with open(choice, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{settings.TF_BF16_CONVERSION.source()}={choice!r}: not a readable file ({error}); "
            f"use {settings.TF_BF16_CONVERSION.allowed}"
        ) from error
    return parse(text, choice)


def parse(text: str, source: str) -> Config:
    """A configuration from the text of a JSON file; `source` is named in errors. Raises ConfigError."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"bf16 configuration {source}: not JSON ({error})") from error
    if not isinstance(data, dict):
        raise ConfigError(f"bf16 configuration {source}: a JSON object is needed, this is {_kind(data)}")
    values: dict[str, Any] = {}
    names = {spelling: key for key, spellings in _SPELLINGS.items() for spelling in spellings}
    for spelling, value in data.items():
        if spelling not in names:
            raise ConfigError(f"bf16 configuration {source}: unknown key {spelling!r}; known are {', '.join(names)}")
        if names[spelling] in values:
            raise ConfigError(f"bf16 configuration {source}: {spelling!r} is a second spelling of a key that is there")
        read = _ops if names[spelling] in _LISTS else _rules
        values[names[spelling]] = read(value, f"bf16 configuration {source}: key {spelling!r}")
    allow, conditional, strict = (values.get(key, frozenset()) for key in _LISTS)
    keep, force = (values.get(key, ()) for key in ("non_convertible_exceptions", "convertible_exceptions"))
    return Config(source, allow, conditional, strict, keep, force)


def _ops(value: Any, where: str) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(op, str) and op for op in value):
        raise ConfigError(f"{where}: a list of op types is needed")
    return frozenset(value)


def _rules(value: Any, where: str) -> tuple[Rule, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"{where}: a list of [name pattern, op type] pairs is needed")
    rules = []
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise ConfigError(f"{where}: {pair!r} is not a pair of a name pattern and an op type")
        try:
            rules.append(Rule(re.compile(pair[0]), pair[1]))
        except re.error as error:
            raise ConfigError(f"{where}: {pair[0]!r} is not a regular expression ({error})") from error
    return tuple(rules)


def _kind(data: Any) -> str:
    return {list: "a list", str: "a string", type(None): "null"}.get(type(data), f"{data!r}")


def dump(config: Config) -> None:
    """Writes the active configuration to `TF_BF16_DUMP_PATH`, if that is set. Failing is only a warning."""
    path = settings.TF_BF16_DUMP_PATH.get()
    if not path:
        return
    temporary = None
    try:
        directory = os.path.dirname(os.path.abspath(path))
        os.makedirs(directory, exist_ok=True)
        # Several processes may have one path: who reads it finds a whole file at any time.
        handle, temporary = tempfile.mkstemp(dir=directory, prefix=".bf16-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(config.to_json())
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
        logging.getLogger("habana_tf").warning("the bf16 configuration could not be dumped to %s: %s", path, error)
