"""The file format of a cache entry: a recipe, or why there is none, with a header that describes it.

    magic (8) | format version (u32) | length of the head (u32) | BLAKE2b-256 of the head (32)
    head: JSON
    parts, one after the other, in the order of the head's table: the key, the description, the sections

Integers are little-endian. The head's table gives name, size and BLAKE2b-256 of every part, so that every byte of the
file is covered once, a listing can read the beginning alone and still see damage, and a signature over the head is
one over the whole. docs/recipe-cache.md describes the format for other readers.

The head holds what the cache itself writes: `name`, `digest` (the key's SHA-256), `created` (seconds since the
epoch), `compile_seconds`, `parts`, and where they apply `failure` and `signature`; and of what the compiler tells
people the little that a line of a listing shows:
    ops      {"MatMul": 2, "Relu": 1, ...}
    scopes   {"resnet50": 61, ...}
    framework    whose program it was: "TensorFlow" or "PyTorch"
    takes    the first inputs as text: "float32[128,784], float32[784,10]"
The key is the canonical JSON of its manifest: its SHA-256 *is* the digest, so it is checked without being parsed. The
description is the rest, parsed when asked for:
    program  digest of what was compiled, which several keys may come to
    tools    {"habana_tf": "0.1.0", "llvmlite": "0.50.0", ...}
    inputs   [{"dtype": "float32", "shape": [128, 784]}, ...], and `outputs` likewise
    memory   {"workspace_bytes": ..., "constant_bytes": ..., "peak_bytes": ..., ...}
and whatever else its tools want to show.

Invariants: `decode` returns what was encoded or raises `EntryError`; no damaged byte goes unnoticed. Nothing here
executes or interprets a section.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from habana_tf.cache.entry_head import (
    ABOUT,
    FORMAT_VERSION,
    FROM_FILE,
    HEAD,
    KEY,
    MAGIC,
    MOST_HEAD_BYTES,
    PREFIX,
    EntryError,
    Header,
    check_key,
    checksum,
    head_end,
    read_head,
    signed_bytes,
)
from habana_tf.cache.key import Key, canonical

MOST_DESCRIPTION_BYTES = 1 << 30

# zlib gives 130 to 150 MB/s back on one core that hashes 400, so compression only pays where it shrinks to a quarter:
# zeros and other constants do, machine code (to a third) does not. The first bytes of a section tell.
_COMPRESS_FROM, _SAMPLE, _WORTHWHILE = 4096, 32768, 0.25

Sign = Callable[[bytes], str]
"""Gives the signature of canonical bytes, in hexadecimal."""


class Entry:
    """A recipe as stored: what it is (`header`) and its sections by name (machine code is "object").

    An entry with a `failure` has no sections.
    """

    def __init__(self, header: Mapping[str, Any], sections: Mapping[str, bytes]) -> None:
        self.header = header
        self.sections = sections

    @property
    def name(self) -> str:
        """The cluster's name."""
        return str(self.header["name"])

    @property
    def digest(self) -> str:
        """The key's SHA-256 in hexadecimal."""
        return str(self.header["digest"])

    @property
    def created(self) -> float:
        """When it was compiled, in seconds since the epoch."""
        return float(self.header["created"])

    @property
    def compile_seconds(self) -> float:
        """What compiling this recipe took."""
        return float(self.header["compile_seconds"])

    @property
    def failure(self) -> str | None:
        """Why this key cannot be compiled, or None for a recipe."""
        reason = self.header.get("failure")
        return None if reason is None else str(reason)

    @cached_property
    def key(self) -> Key:
        """The key, rebuilt from its manifest."""
        return Key.of((str(name), value) for name, value in self.header["key"])


def encode(entry: Entry, sign: Sign | None = None) -> bytes:
    """The entry as file contents, signed if asked. Raises TypeError or ValueError when the header is not JSON data."""
    described = {k: v for k, v in entry.header.items() if k not in HEAD and k not in FROM_FILE}
    parts = [(KEY, canonical(entry.header["key"])), (ABOUT, _json(described)), *entry.sections.items()]
    table, payload = [], []
    for name, data in parts:
        packed = _compressed(data) if name not in (KEY, ABOUT) else None
        stored = data if packed is None else packed
        table.append([name, len(data), len(stored), checksum(stored).hex()])
        payload.append(stored)
    head = {name: entry.header[name] for name in HEAD - {"parts", "signature"} if name in entry.header}
    head["parts"] = table
    if sign is not None:
        head["signature"] = sign(signed_bytes(head))
    text = _json(dict(sorted(head.items())))
    if len(text) > MOST_HEAD_BYTES:
        raise ValueError(f"a head of {len(text)} bytes; at most {MOST_HEAD_BYTES} are possible: use fewer sections")
    return b"".join([PREFIX.pack(MAGIC, FORMAT_VERSION, len(text), checksum(text)), text, *payload])


def decode(data: bytes, check: Callable[[Mapping[str, Any]], None] = lambda head: None) -> Entry:
    """The entry in `data`. Raises EntryError when anything is wrong with it.

    check: is given the head before anything that the head says is believed, and raises when it is not to be.
    """
    at = head_end(data)
    head = read_head(data, at)
    check(head)
    view = memoryview(data)
    found: dict[str, bytes | slice] = {}
    for name, size, count, digest in head["parts"]:
        end = at + count
        stored = view[at:end]
        if end > len(data):
            raise EntryError(f"{len(data)} bytes long, cut off in part {name!r}")
        if checksum(stored).hex() != digest:
            raise EntryError(f"the digest does not match the contents of part {name!r}")
        found[name] = slice(at, end) if count == size else _unpacked(stored, size, name)
        at = end
    if at != len(data):
        raise EntryError(f"{len(data)} bytes long instead of {at}")
    sections = _Sections(data, found)
    key, about = sections[KEY], sections[ABOUT]
    del found[KEY], found[ABOUT]
    check_key(head, key)
    return Entry(Header(head, key, about), sections)


class _Sections(Mapping[str, bytes]):
    """The sections of an entry that was verified. Most of a large one is not looked at, so a section is copied out of
    the file's contents when it is asked for."""

    def __init__(self, data: bytes, places: Mapping[str, bytes | slice]) -> None:
        self._data, self._places = data, places

    def __getitem__(self, name: str) -> bytes:
        place = self._places[name]
        return self._data[place] if isinstance(place, slice) else place

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places


class Start(NamedTuple):
    """The beginning of an entry's file, verified. file_bytes: how long the file has to be."""

    header: Header
    file_bytes: int


def decode_start(
    data: bytes, more: Callable[[int, int], bytes] = lambda at, count: b"", head_only: bool = False
) -> Start:
    """The beginning of a file in `data`, its first bytes, without reading its sections.

    more: gives `count` bytes from offset `at` on where `data` ends too early. head_only: nothing but the head is looked
    at. Raises EntryError for damage in what is.
    """
    if (end := head_end(data)) > len(data):
        data += more(len(data), end - len(data))
    head, at = read_head(data, end), end
    rows = head["parts"]
    size = at + sum([row[2] for row in rows])
    if head_only:
        del head["parts"]  # most of it; a thousand are kept at once, and memory that is used again is at hand
        return Start(Header(head, None, None), size)
    texts = []
    for _, _, count, digest in rows[:2]:
        end = at + count
        if end > len(data):
            data += more(len(data), min(end - len(data), MOST_DESCRIPTION_BYTES))
        text = data[at:end]
        if checksum(text).hex() != digest:
            raise EntryError("the header is damaged")
        texts.append(text)
        at = end
    key, about = texts
    check_key(head, key)
    return Start(Header(head, key, about), size)


def _json(value: object) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def _compressed(data: bytes) -> bytes | None:
    """`data` compressed, or None when that does not pay."""
    if len(data) < _COMPRESS_FROM:
        return None
    for part in (data[:_SAMPLE], data):
        packed = zlib.compress(part, 1)
        if len(packed) > len(part) * _WORTHWHILE:
            return None
    return packed


def _unpacked(stored: bytes | memoryview, size: int, name: str) -> bytes:
    try:
        # Bounded by the stated size, so that a wrong header cannot ask for endless memory.
        found = zlib.decompressobj().decompress(stored, size + 1)
    except (zlib.error, OverflowError) as error:
        raise EntryError(f"section {name!r}: {error}") from error
    if len(found) != size:
        raise EntryError(f"section {name!r} has the wrong length")
    return found
