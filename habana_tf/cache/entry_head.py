"""The head of a cache entry: read, checked field by field, and looked into."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from habana_tf.cache.key import Key, canonical, understood, whole

FORMAT_VERSION = 6
"""Another one for every change of what an entry has, a new field of its head included: a version reads its own only."""
PREFIX_BYTES = 48
_DIGEST_AT = 16
MOST_HEAD_BYTES = 1 << 20
_ENDLESS = 1 << 40
LAST = 253_402_300_800
"""Seconds since the epoch at the end of the year 9999, after which there are no dates."""
MAGIC = b"\x93RECIPE\n"
PREFIX = struct.Struct("<8sII32s")
KEY, ABOUT = "key", "about"
FROM_FILE = ("key", "sections")
_ROW = ("name", "bytes", "stored", "blake2b")
_OWN = frozenset({"name", "digest", "created", "compile_seconds", "parts", "failure", "signature"})
_SHOWN = ("framework", "ops", "precision", "scopes", "takes", "work")
HEAD = _OWN.union(_SHOWN)
_LOADS = json.JSONDecoder().raw_decode


class EntryError(Exception):
    """The bytes are not an intact entry of this format."""


class Header(Mapping[str, Any]):
    """Head, key and description as one mapping; key and description are parsed when first asked for.

    Asking for them raises EntryError when they are not understood; `tools`, `inputs` and so on are in the description.
    Where key and description are None, only the head was read: the mapping has nothing else, nor `parts`.
    """

    def __init__(self, head: dict[str, Any], key: bytes | None, about: bytes | None) -> None:
        self._head, self._key, self._about = head, key, about

    @cached_property
    def key(self) -> Key:
        """The key, rebuilt from its manifest."""
        try:
            return Key.of((name, value) for name, value in self._manifest)
        except (ValueError, RecursionError) as error:
            raise EntryError(f"the key manifest is not understood: {error}") from error

    def check_description(self) -> None:
        """Raises EntryError when the description is not understood."""
        _ = self._described

    @cached_property
    def _manifest(self) -> list[list[Any]]:
        assert self._key is not None
        parts = _understood(self._key, "key manifest")
        if not isinstance(parts, list) or not all(_is_part(part) for part in parts):
            raise EntryError("the key manifest is not understood: it is no list of names and values")
        return parts

    @cached_property
    def _described(self) -> dict[str, Any]:
        if self._about is None:
            return {}
        about = _understood(self._about, "description")
        if not isinstance(about, dict):
            raise EntryError("the description is not understood: it is no mapping")
        return {name: value for name, value in about.items() if name not in HEAD and name not in FROM_FILE}

    def __getitem__(self, name: str) -> Any:
        if name in HEAD:
            return self._head[name]
        if name == "sections" and "parts" in self._head:
            return [dict(zip(_ROW, row, strict=True)) for row in self._head["parts"][2:]]
        return self._manifest if name == "key" and self._key is not None else self._described[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._described, *self._head, *(FROM_FILE if self._key is not None else ())])

    def __len__(self) -> int:
        return len(list(iter(self)))


def head_end(start: bytes) -> int:
    """Offset behind the head, from the first `PREFIX_BYTES` bytes of a file.

    Raises EntryError when this is no entry of this format version.
    """
    if len(start) < PREFIX_BYTES:
        raise EntryError(f"only {len(start)} bytes long")
    magic, version, length, _ = PREFIX.unpack_from(start)
    if magic != MAGIC:
        raise EntryError("not a recipe")
    if version != FORMAT_VERSION:
        raise EntryError(f"format version {version}, this is version {FORMAT_VERSION}")
    if length > MOST_HEAD_BYTES:
        raise EntryError("the header is damaged")
    return PREFIX_BYTES + int(length)


def signed_bytes(head: Mapping[str, Any]) -> bytes:
    """What a signature is made of: the whole head but the signature; through its digests, the whole entry."""
    return canonical({name: head[name] for name in sorted(HEAD - {"signature"}) if name in head})


def read_head(start: bytes, end: int) -> dict[str, Any]:
    """The verified head, which ends at offset `end`."""
    text = start[PREFIX_BYTES:end]
    if len(text) != end - PREFIX_BYTES or checksum(text) != start[_DIGEST_AT:PREFIX_BYTES]:
        raise EntryError("the header is damaged")
    try:
        words = text.decode()
        head, read = _LOADS(words)
        ok = read == len(words) and _well_formed(head)
        whole(head, words)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise EntryError(f"the header is not understood: {error!r}") from error
    if not ok:
        raise EntryError("the header is not understood: a field is missing or of another type")
    checked: dict[str, Any] = head
    return checked


def _well_formed(head: Any) -> bool:
    """Whether a head's fields are there and of their types; it may raise KeyError, TypeError or ValueError as well."""
    names: list[str] = []
    for name, size, stored, digest in head["parts"]:
        if type(name) is not str or type(size) is not int or type(stored) is not int or type(digest) is not str:
            return False
        # What is stored shorter than it is was compressed: never key and description.
        if not 0 <= stored <= size < _ENDLESS or (stored < size and len(names) < 2):
            return False
        names.append(name)
    return (
        names[:2] == [KEY, ABOUT]
        and len(set(names)) == len(names)
        and isinstance(head["name"], str)
        and isinstance(head["digest"], str)
        and type(head["created"]) in (int, float)
        and 0 <= head["created"] < LAST
        and type(head["compile_seconds"]) in (int, float)
        and 0 <= head["compile_seconds"] < LAST
        and isinstance(head.get("failure", ""), str)
        and isinstance(head.get("signature", ""), str)
        and _are_counts(head.get("ops", {}))
        and _are_counts(head.get("scopes", {}))
        and isinstance(head.get("takes", ""), str)
        and isinstance(head.get("framework", ""), str)
        and isinstance(head.get("precision", ""), str)
        and _are_counts(head.get("work", {}))
        and head.keys() <= HEAD
    )


def _are_counts(value: Any) -> bool:
    return type(value) is dict and all(type(n) is int and 0 <= n < _ENDLESS for n in value.values())


def _is_part(part: object) -> bool:
    return isinstance(part, list) and len(part) == 2 and isinstance(part[0], str)


def _understood(text: bytes, what: str) -> Any:
    """The JSON data in a part whose digest was right."""
    try:
        return understood(text)
    except ValueError as error:
        raise EntryError(f"the {what} is not understood: {error!r}") from error


def check_key(head: Mapping[str, Any], key: bytes) -> None:
    if hashlib.sha256(key).hexdigest() != head["digest"]:
        raise EntryError("the key manifest does not match the key")


def checksum(data: bytes | memoryview) -> bytes:
    """BLAKE2b: twice as fast as SHA-256 on a CPU without instructions for that."""
    return hashlib.blake2b(data, digest_size=32).digest()
