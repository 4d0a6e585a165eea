"""The recipe key: named, ordered parts and one SHA-256 over all of them.

What: everything that decides what a recipe computes is a part with a name (the cluster, the shapes, the target,
the settings, the versions). The names stay with the entry, so "why was this not found?" is a comparison of two
lists and not a comparison of two hashes.

Invariants: a part's value is JSON; bytes are replaced by their length and SHA-256, so a manifest stays small and
readable; equal keys have equal encodings in every process (sorted mappings, no NaN, ASCII only).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple


class KeyPart(NamedTuple):
    """One named part; `value` is JSON data."""

    name: str
    value: object

    def encoded(self) -> bytes:
        """The canonical JSON of this part."""
        return canonical([self.name, self.value])


class Key:
    """An ordered list of parts with distinct names. Make one with `Key.of`."""

    def __init__(self, parts: tuple[KeyPart, ...]) -> None:
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.parts == other.parts

    def __repr__(self) -> str:
        return f"Key({self.parts!r})"

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, object]]) -> Key:
        """A key of (name, value) pairs. Values: None, bool, int, float, str, bytes, and sequences and mappings of
        these. Raises ValueError for a repeated name or a NaN, TypeError for any other type."""
        parts = tuple(KeyPart(name, _plain(value)) for name, value in pairs)
        names = [part.name for part in parts]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"key parts named twice: {', '.join(repeated)}")
        return cls(parts)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over all parts in order, 64 hexadecimal digits."""
        return hashlib.sha256(canonical(self.manifest())).hexdigest()

    def manifest(self) -> list[list[object]]:
        """[name, value] of every part, as stored in an entry; `Key.of` of it gives an equal key."""
        return [[part.name, part.value] for part in self.parts]


class Difference(NamedTuple):
    """A part on which two keys differ; None for the side that has no such part."""

    name: str
    left: KeyPart | None
    right: KeyPart | None

    def to_json(self) -> dict[str, Any]:
        """As JSON data."""
        sides = {"left": self.left, "right": self.right}
        return {"name": self.name, **{side: part and part._asdict() for side, part in sides.items()}}


def diff(left: Key, right: Key) -> list[Difference]:
    """The parts that differ: those of `left` in its order, then those only `right` has.

    Empty when the keys are equal or differ in the order of their parts alone.
    """
    ours = {part.name: part for part in left.parts}
    theirs = {part.name: part for part in right.parts}
    names = [*ours, *(name for name in theirs if name not in ours)]
    pairs = [(name, ours.get(name), theirs.get(name)) for name in names]
    # Compared as encodings: Python takes 1, 1.0 and True for equal, the digest does not.
    return [Difference(name, a, b) for name, a, b in pairs if a is None or b is None or a.encoded() != b.encoded()]


def canonical(value: object) -> bytes:
    """The one encoding of JSON data that digests are made of."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.encode("ascii")


def understood(text: bytes) -> Any:
    """The JSON data in `text`, of which `canonical` gives an encoding and a terminal shows every character: no NaN, no
    infinity, no half of a character, no endless nesting. Raises ValueError."""
    words = text.decode()
    try:
        return whole(json.loads(words, parse_constant=_finite, parse_float=_finite), words)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def whole(found: Any, words: str) -> Any:
    """`found`, which `words` says. Raises ValueError when half of a character is in it, as only an escape can say."""
    if "\\ud" in words or "\\uD" in words:
        json.dumps(found, ensure_ascii=False).encode()
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no finite number")
    return number


_AS_THEY_ARE = frozenset({type(None), bool, int, float, str})


def _plain(value: object) -> object:
    """`value` as JSON data, with bytes replaced by their length and digest."""
    if type(value) in _AS_THEY_ARE or isinstance(value, (int, float, str)):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"bytes": memoryview(value).nbytes, "sha256": hashlib.sha256(value).hexdigest()}
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise TypeError("names inside a key part must be strings")
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [item if type(item) in _AS_THEY_ARE else _plain(item) for item in value]
    raise TypeError(f"{type(value).__name__} cannot be part of a recipe key: convert it to plain data first")
