"""An entry gives back what was put in, and no damaged byte goes unnoticed."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import pytest

from habana_tf.cache.entry import Entry, decode, decode_start, encode
from habana_tf.cache.entry_head import FORMAT_VERSION, HEAD, PREFIX_BYTES, EntryError, head_end


def test_round_trip(entry: Entry) -> None:
    again = decode(encode(entry))
    assert again.sections == entry.sections
    assert list(again.sections) == ["object", "constants", "empty"]
    assert again.name == "dense_relu"
    assert again.compile_seconds == 0.5
    assert again.key.digest == again.digest == entry.digest
    assert {name: again.header[name] for name in entry.header} == entry.header
    assert sum(map(len, again.sections.values())) == 3000 + 8192


def test_only_what_shrinks_is_compressed(entry: Entry) -> None:
    noise = random.Random(1).randbytes(100_000)
    half = noise[:50_000] + b"\0" * 50_000
    data = encode(Entry(entry.header, {"noise": noise, "zeros": b"\0" * 100_000, "tail": half, "few": b"\0" * 99}))
    rows = {row["name"]: row for row in decode(data).header["sections"]}
    assert {name: row["stored"] < row["bytes"] for name, row in rows.items()} == {
        "noise": False,
        "zeros": True,
        "tail": False,  # judged by its beginning: trying costs more than it saves
        "few": False,
    }
    assert rows["zeros"]["stored"] < 1000
    assert decode(data).sections["zeros"] == b"\0" * 100_000


def test_the_header_is_read_alone(entry: Entry) -> None:
    data = encode(entry)
    for first in (48, 60, head_end(data), head_end(data) + 10, len(data)):
        asked: list[tuple[int, int]] = []

        def more(at: int, count: int, asked: list[tuple[int, int]] = asked) -> bytes:
            asked.append((at, count))
            return data[at : at + count]

        start = decode_start(data[:first], more)
        assert dict(start.header) == dict(decode(data).header)
        assert start.header["ops"] == {"MatMul": 1, "Relu": 1}
        assert start.header.key == entry.key
        assert start.file_bytes == len(data)
        assert sum(count for _, count in asked) < len(data) - 3000
    assert not asked


def test_a_head_alone_has_what_a_line_of_a_listing_shows(entry: Entry) -> None:
    data = encode(Entry({**entry.header, "takes": "float32[128,784]", "scopes": {"net": 2}}, entry.sections))
    start = decode_start(data[: head_end(data)], head_only=True)
    assert start.file_bytes == len(data)
    shown = {"name", "digest", "created", "compile_seconds", "ops", "scopes", "takes"}
    whole = decode(data).header
    assert {name: start.header[name] for name in shown} == {name: whole[name] for name in shown}
    assert set(start.header) == shown and len(start.header) == len(shown)
    for name in ("key", "inputs", "tools", "parts", "sections"):
        assert name in whole and name not in start.header


def test_every_flip_in_a_head_is_noticed_where_it_is_read_alone(entry: Entry) -> None:
    data = bytearray(encode(entry))
    for position in range(end := head_end(bytes(data))):
        for bit in range(8):
            data[position] ^= 1 << bit
            with pytest.raises(EntryError):
                decode_start(bytes(data[:end]), head_only=True)
            data[position] ^= 1 << bit


def test_the_description_is_parsed_only_when_asked_for(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be many times as long as the code; a warm start needs none of it."""
    found = decode(encode(entry))
    monkeypatch.setattr(json, "loads", None)
    assert found.header["ops"] == {"MatMul": 1, "Relu": 1}
    assert (found.name, found.digest, found.failure, found.compile_seconds) == ("dense_relu", entry.digest, None, 0.5)


def test_a_failure_is_an_entry_without_sections(entry: Entry) -> None:
    found = decode(encode(Entry({**entry.header, "failure": "no kernel for it"}, {})))
    assert found.failure == "no kernel for it"
    assert not found.sections
    assert found.header["ops"] == {"MatMul": 1, "Relu": 1}


def test_every_truncation_is_noticed(entry: Entry) -> None:
    data = encode(entry)
    for length in [*range(0, 100), *range(100, len(data), 97), len(data) - 1]:
        with pytest.raises(EntryError):
            decode(data[:length])
    with pytest.raises(EntryError):
        decode(data + b"\0")


def test_every_flip_in_the_header_and_many_in_the_payload_are_noticed(entry: Entry) -> None:
    data = bytearray(encode(entry))
    end = head_end(bytes(data)) + sum(row[2] for row in decode_start(bytes(data)).header["parts"][:2])
    for position in [*range(end), *random.Random(2).sample(range(end, len(data)), 1500)]:
        data[position] ^= 1 << (position % 8)
        with pytest.raises(EntryError):
            decode(bytes(data))
        if position < end:
            with pytest.raises(EntryError):
                decode_start(bytes(data[:end]))
        data[position] ^= 1 << (position % 8)
    decode(bytes(data))


def test_a_wrong_key_manifest_is_noticed(entry: Entry, make_entry: Callable[..., Entry]) -> None:
    forged = Entry({**entry.header, "digest": make_entry(seed=1).digest}, entry.sections)
    with pytest.raises(EntryError, match="manifest does not match"):
        decode(encode(forged))


def _forged(data: bytes, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """The file with another head under digests that fit, as no accident would make it."""
    end = head_end(data)
    head = json.loads(data[PREFIX_BYTES:end])
    change(head)
    text = json.dumps(head).encode()
    return (
        struct.pack("<8sII32s", data[:8], data[8], len(text), blake2b(text, digest_size=32).digest())
        + text
        + data[end:]
    )


_ROW = ["name", "bytes", "stored", "blake2b"]


@pytest.mark.parametrize("lie", [-1, 1, 1 << 39])
@pytest.mark.parametrize(("part", "field"), [(2, "bytes"), (3, "bytes"), (2, "stored"), (0, "stored")])
def test_a_header_that_lies_about_sizes_is_noticed(entry: Entry, part: int, field: str, lie: int) -> None:
    def change(head: dict[str, Any]) -> None:
        head["parts"][part][_ROW.index(field)] += lie

    with pytest.raises(EntryError):
        decode(_forged(encode(entry), change))


_FIELDS = ["name", "digest", "created", "compile_seconds", "parts"]
_SHOWN = ["ops", "precision", "scopes", "takes", "work"]


@pytest.mark.parametrize("value", [None, [], {}, -1, "x", 1 << 70, [[]], [{}]], ids=str)
@pytest.mark.parametrize("field", [*_FIELDS, *(f"parts.{name}" for name in _ROW), *_SHOWN, "signature", "failure"])
def test_a_header_with_a_field_of_another_kind_is_an_error_of_the_entry(
    entry: Entry, field: str, value: object
) -> None:
    """Decoded to what was said, or refused: no other exception, nothing wrong."""

    def change(head: dict[str, Any]) -> None:
        if "." in field:
            head["parts"][2][_ROW.index(field.removeprefix("parts."))] = value
        else:
            head[field] = value

    try:
        found = decode(_forged(encode(entry), change))
        assert list(found.sections.values()) == list(entry.sections.values())
        assert field in ("name", "created", "compile_seconds", "signature", "failure", "parts.name", *_SHOWN)
    except EntryError:
        pass


@pytest.mark.parametrize("field", _FIELDS)
def test_a_missing_field_is_noticed(entry: Entry, field: str) -> None:
    with pytest.raises(EntryError, match="not understood"):
        decode(_forged(encode(entry), lambda head: head.pop(field)))


@pytest.mark.parametrize(("version", "message"), [(3, "format version 3"), (7, "format version 7")])
def test_other_format_versions_are_named(entry: Entry, version: int, message: str) -> None:
    data = bytearray(encode(entry))
    data[8:12] = struct.pack("<I", version)
    with pytest.raises(EntryError, match=message):
        decode(bytes(data))


def test_what_an_entry_has_belongs_to_a_format_version() -> None:
    """A version takes heads with exactly these fields, so another field is another version."""
    fields = "compile_seconds created digest failure framework name ops parts precision scopes signature takes work"
    assert (FORMAT_VERSION, " ".join(sorted(HEAD))) == (6, fields), "raise FORMAT_VERSION, then this list"


def test_another_file_is_not_a_recipe() -> None:
    with pytest.raises(EntryError, match="not a recipe"):
        decode(b"\x7fELF" + b"\0" * 200)


def test_a_header_must_be_json(entry: Entry) -> None:
    with pytest.raises(TypeError):
        encode(Entry({**entry.header, "ops": object()}, {}))
