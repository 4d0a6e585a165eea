"""A listing reads the beginnings of files, and parses what is shown."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import pytest

from habana_tf.cache.disk import Store
from habana_tf.cache.entry import Entry, decode, encode
from habana_tf.cache.entry_head import EntryError
from habana_tf.cache.reader import Reader


def _put(root: Path, data: bytes, digest: str) -> None:
    shard = root / "v6" / digest[:2]
    shard.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = shard / f"dense-{digest}.recipe"
    path.write_bytes(data)
    path.chmod(0o600)


def _with_key(entry: Entry, key: bytes) -> tuple[bytes, str]:
    """The file of an entry whose key manifest is `key`, all digests right: no accident makes one."""
    data = encode(entry)
    _, _, length, _ = struct.unpack_from("<8sII32s", data)
    head = json.loads(data[48 : 48 + length])
    old, head["digest"] = head["parts"][0][2], sha256(key).hexdigest()
    head["parts"][0] = ["key", len(key), len(key), blake2b(key, digest_size=32).hexdigest()]
    text = json.dumps(head).encode()
    start = struct.pack("<8sII32s", data[:8], data[8], len(text), blake2b(text, digest_size=32).digest())
    return start + text + key + data[48 + length + old :], head["digest"]


def test_payloads_are_not_read(tmp_path: Path, entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    large = Entry(entry.header, {**entry.sections, "object": os.urandom(1 << 20)})
    assert Store(str(tmp_path)).write(large)
    read: list[int] = []
    pread: Callable[[int, int, int], bytes] = os.pread

    def counted(file: int, count: int, offset: int) -> bytes:
        data = pread(file, count, offset)
        read.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counted)
    monkeypatch.setattr(os, "read", None)
    (row,) = Reader(str(tmp_path)).listing()
    assert row.problem is None and row.file_bytes > 1 << 20
    assert read == [8192]


def test_a_key_is_parsed_when_it_is_asked_for(tmp_path: Path, entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Store(str(tmp_path)).write(entry)
    parsed: list[Any] = []
    loads = json.loads
    monkeypatch.setattr(json, "loads", lambda text, **how: parsed.append(loads(text, **how)) or parsed[-1])
    (row,) = Reader(str(tmp_path)).listing()
    assert row.header is not None and row.header["ops"] == entry.header["ops"]
    assert entry.header["key"] not in parsed
    assert row.header["key"] == entry.header["key"]
    assert parsed[-1] == entry.header["key"]


@pytest.mark.parametrize("key", [b"[", b"{}", b'["name"]', b'[["a",1],["a",2]]', b"[" * 100_000, b"\xff"])
def test_a_key_that_is_none(tmp_path: Path, entry: Entry, key: bytes) -> None:
    data, digest = _with_key(entry, key)
    _put(tmp_path, data, digest)
    (row,) = Reader(str(tmp_path)).listing()
    assert row.header is not None and row.header["name"] == entry.name
    with pytest.raises(EntryError, match="the key manifest is not understood"):
        _ = row.header.key
    assert decode(data).sections == entry.sections


def test_json_has_all_of_the_header(tmp_path: Path, entry: Entry) -> None:
    assert Store(str(tmp_path)).write(entry)
    (row,) = Reader(str(tmp_path)).listing()
    data = json.loads(json.dumps(row.to_json()))
    assert {name: data["header"][name] for name in entry.header} == json.loads(json.dumps(dict(entry.header)))
    assert {name: data[name] for name in ("path", "problem")} == {"path": row.path, "problem": None}
