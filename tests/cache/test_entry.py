"""An entry gives back what was put in, and no damaged byte goes unnoticed."""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Callable

import pytest

from habana_tf.cache import entry as entry_format
from habana_tf.cache.entry import Entry, EntryError, decode, decode_header, encode, header_end


def test_round_trip(entry: Entry) -> None:
    again = decode(encode(entry))
    assert again.sections == entry.sections
    assert list(again.sections) == ["object", "constants", "empty"]
    assert again.name == "dense_relu"
    assert again.compile_seconds == 0.5
    assert again.key.digest == again.digest == entry.digest
    assert {name: again.header[name] for name in entry.header} == entry.header
    assert again.payload_bytes == 3000 + 8192


def test_only_what_shrinks_is_compressed(entry: Entry) -> None:
    noise = random.Random(1).randbytes(100_000)
    half = noise[:50_000] + b"\0" * 50_000
    data = encode(Entry(entry.header, {"noise": noise, "zeros": b"\0" * 100_000, "tail": half, "few": b"\0" * 99}))
    rows = {row["name"]: row for row in decode(data).header["sections"]}
    assert {name: row["zlib"] for name, row in rows.items()} == {
        "noise": False,
        "zeros": True,
        "tail": False,  # judged by its beginning: trying costs more than it saves
        "few": False,
    }
    assert rows["zeros"]["stored"] < 1000
    assert decode(data).sections["zeros"] == b"\0" * 100_000


def test_the_header_is_read_alone(entry: Entry) -> None:
    data = encode(entry)
    start = data[: header_end(data[: entry_format.PREFIX_BYTES])]
    assert decode_header(start, len(data))["ops"] == {"MatMul": 1, "Relu": 1}
    with pytest.raises(EntryError, match="bytes long instead of"):
        decode_header(start, len(data) - 1)


def test_every_truncation_is_noticed(entry: Entry) -> None:
    data = encode(entry)
    for length in [*range(0, 100), *range(100, len(data), 97), len(data) - 1]:
        with pytest.raises(EntryError):
            decode(data[:length])
    with pytest.raises(EntryError):
        decode(data + b"\0")


def test_every_flip_in_the_header_and_many_in_the_payload_are_noticed(entry: Entry) -> None:
    data = bytearray(encode(entry))
    end = header_end(bytes(data))
    chosen = random.Random(2).sample(range(end, len(data)), 300)
    for position in [*range(end), *chosen, *range(len(data) - 32, len(data))]:
        data[position] ^= 1 << (position % 8)
        with pytest.raises(EntryError):
            decode(bytes(data))
        if position < end:
            with pytest.raises(EntryError):
                decode_header(bytes(data[:end]), len(data))
        data[position] ^= 1 << (position % 8)
    decode(bytes(data))


def test_a_wrong_key_manifest_is_noticed(entry: Entry, make_entry: Callable[..., Entry]) -> None:
    forged = Entry({**entry.header, "digest": make_entry(seed=1).digest}, entry.sections)
    with pytest.raises(EntryError, match="manifest does not match"):
        decode(encode(forged))


def test_a_header_that_lies_about_sizes_is_noticed(entry: Entry) -> None:
    """Even with digests that fit, as no accident would make them."""
    data = encode(entry)
    truth = data[entry_format.PREFIX_BYTES : header_end(data)]
    for size, lie in [(b"8192", b"8191"), (b"8192", b"8193"), (b"3000", b"3001")]:
        header = truth.replace(b'"bytes":' + size, b'"bytes":' + lie)
        assert header != truth
        body = struct.pack("<8sII32s", data[:8], 1, len(header), hashlib.sha256(header).digest())
        body += header + data[header_end(data) : -32]
        with pytest.raises(EntryError, match="wrong length"):
            decode(body + hashlib.sha256(body).digest())


@pytest.mark.parametrize(("version", "message"), [(0, "format version 0"), (2, "format version 2")])
def test_other_format_versions_are_named(entry: Entry, version: int, message: str) -> None:
    data = bytearray(encode(entry))
    data[8:12] = struct.pack("<I", version)
    with pytest.raises(EntryError, match=message):
        decode(bytes(data))


def test_another_file_is_not_a_recipe() -> None:
    with pytest.raises(EntryError, match="not a recipe"):
        decode(b"\x7fELF" + b"\0" * 200)


def test_a_header_must_be_json(entry: Entry) -> None:
    with pytest.raises(TypeError):
        encode(Entry({**entry.header, "ops": object()}, {}))
