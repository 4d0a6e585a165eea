"""One cache entry: a recipe in a single file that explains itself.

    magic (8) | format version (u32) | header length (u32) | SHA-256 of the header (32)
    header: JSON, readable without TensorFlow
    payload: the sections, one after the other, in the order of the header's table
    SHA-256 of everything before (32)

Integers are little-endian. The header carries its own digest so that a listing can read headers alone and still
see a damaged one. Nothing here executes or interprets a section.

The header's fields: the cache itself writes `name`, `digest`, `key` (the manifest), `created` (seconds since the
epoch), `compile_seconds` and `sections`; the compiler adds
    tools    {"habana_tf": "0.1.0", "llvm": "22.1", ...}
    ops      {"MatMul": 2, "Relu": 1, ...}
    inputs   [{"dtype": "float32", "shape": [128, 784]}, ...], and `outputs` likewise
    memory   {"workspace_bytes": ..., "constant_bytes": ..., "peak_bytes": ..., ...}
and whatever else its tools want to show.

Invariant: `decode` returns what was encoded or raises `EntryError`; no damaged byte goes unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from habana_tf.cache.key import Key

FORMAT_VERSION = 1
_MAGIC = b"\x93RECIPE\n"
_PREFIX = struct.Struct("<8sII32s")
PREFIX_BYTES = _PREFIX.size
_DIGEST_BYTES = 32
# Compressing pays when it saves at least a quarter; the first bytes of a section tell.
_COMPRESS_FROM, _SAMPLE, _WORTHWHILE = 4096, 32768, 0.75


class EntryError(Exception):
    """The bytes are not an intact entry of this format."""


@dataclass(frozen=True)
class Entry:
    """A recipe as stored: what it is (`header`) and its sections by name (machine code is "object")."""

    header: Mapping[str, Any]
    sections: Mapping[str, bytes]

    @property
    def name(self) -> str:
        """The cluster's name."""
        return str(self.header["name"])

    @property
    def digest(self) -> str:
        """The key's SHA-256 in hexadecimal."""
        return str(self.header["digest"])

    @property
    def compile_seconds(self) -> float:
        """What compiling this recipe took."""
        return float(self.header["compile_seconds"])

    @cached_property
    def key(self) -> Key:
        """The key, rebuilt from its manifest."""
        return _key(self.header)

    @property
    def payload_bytes(self) -> int:
        """Bytes of all sections."""
        return sum(len(data) for data in self.sections.values())


def encode(entry: Entry) -> bytes:
    """The entry as file contents. Raises TypeError or ValueError when the header is not JSON data."""
    table, payload = [], []
    for name, data in entry.sections.items():
        stored = _compressed(data)
        table.append({"name": name, "bytes": len(data), "stored": len(stored or data), "zlib": stored is not None})
        payload.append(stored or data)
    header = json.dumps({**entry.header, "sections": table}, allow_nan=False, separators=(",", ":")).encode()
    prefix = _PREFIX.pack(_MAGIC, FORMAT_VERSION, len(header), hashlib.sha256(header).digest())
    body = b"".join([prefix, header, *payload])
    return body + hashlib.sha256(body).digest()


def decode(data: bytes) -> Entry:
    """The entry in `data`. Raises EntryError when anything is wrong with it."""
    if len(data) < PREFIX_BYTES + _DIGEST_BYTES:
        raise EntryError(f"only {len(data)} bytes long")
    _header_length(data)
    body = memoryview(data)[:-_DIGEST_BYTES]
    if hashlib.sha256(body).digest() != data[-_DIGEST_BYTES:]:
        raise EntryError("the digest does not match the contents")
    header = decode_header(data, len(data))
    if _key(header).digest != header["digest"]:
        raise EntryError("the key manifest does not match the key")
    offset = PREFIX_BYTES + _header_length(data)
    sections = {}
    for row in header["sections"]:
        sections[row["name"]] = _section(body[offset : offset + row["stored"]], row)
        offset += row["stored"]
    return Entry(header, sections)


def decode_header(start: bytes, file_bytes: int) -> dict[str, Any]:
    """The header in `start`, the beginning of a file of `file_bytes` bytes, without reading its payload.

    `start` must hold `header_end(start)` bytes. Raises EntryError for a damaged header or a file of wrong length.
    """
    end = header_end(start)
    text = start[PREFIX_BYTES:end]
    if len(text) != end - PREFIX_BYTES or hashlib.sha256(text).digest() != _PREFIX.unpack_from(start)[3]:
        raise EntryError("the header is damaged")
    try:
        header = json.loads(text)
        stored = sum(int(row["stored"]) for row in header["sections"])
        str(header["name"]), str(header["digest"]), float(header["compile_seconds"]), header["key"]
    except (ValueError, KeyError, TypeError) as error:
        raise EntryError(f"the header is not understood: {error!r}") from error
    if file_bytes != end + stored + _DIGEST_BYTES:
        raise EntryError(f"{file_bytes} bytes long instead of {end + stored + _DIGEST_BYTES}")
    return dict(header)


def header_end(start: bytes) -> int:
    """Offset of the first byte behind the header, from the first `PREFIX_BYTES` bytes of a file.

    Raises EntryError when this is no entry of this format version.
    """
    return PREFIX_BYTES + _header_length(start)


def _header_length(start: bytes) -> int:
    if len(start) < PREFIX_BYTES:
        raise EntryError(f"only {len(start)} bytes long")
    magic, version, length, _ = _PREFIX.unpack_from(start)
    if magic != _MAGIC:
        raise EntryError("not a recipe")
    if version != FORMAT_VERSION:
        raise EntryError(f"format version {version}, this is version {FORMAT_VERSION}")
    return int(length)


def _key(header: Mapping[str, Any]) -> Key:
    try:
        return Key.of((str(name), value) for name, value in header["key"])
    except (ValueError, TypeError) as error:
        raise EntryError(f"the key manifest is not understood: {error!r}") from error


def _compressed(data: bytes) -> bytes | None:
    """`data` compressed, or None when that does not pay."""
    if len(data) < _COMPRESS_FROM:
        return None
    for part in (data[:_SAMPLE], data):
        packed = zlib.compress(part, 1)
        if len(packed) > len(part) * _WORTHWHILE:
            return None
    return packed


def _section(stored: memoryview, row: Mapping[str, Any]) -> bytes:
    data = bytes(stored)
    if row["zlib"]:
        try:
            # Bounded by the stated size, so that a wrong header cannot ask for endless memory.
            data = zlib.decompressobj().decompress(stored, row["bytes"] + 1)
        except zlib.error as error:
            raise EntryError(f"section {row['name']!r}: {error}") from error
    if len(data) != row["bytes"]:
        raise EntryError(f"section {row['name']!r} has the wrong length")
    return data
