"""With a signing key only what was signed with it is believed, whoever wrote it."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from habana_tf.cache import entry as entry_format
from habana_tf.cache.counters import Stats
from habana_tf.cache.disk import Store
from habana_tf.cache.entry import Entry, decode, encode
from habana_tf.cache.entry_head import PREFIX_BYTES, head_end, signed_bytes
from habana_tf.cache.reader import Options
from habana_tf.cache.signature import SigningKey
from habana_tf.files.trust import Refused
from tests.versions import as_root

ONE, OTHER = SigningKey(b"one secret of many"), SigningKey(b"quite another one")


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text("0123456789abcdef0123456789abcdef\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def signing(root: Path, key_file: Path) -> Store:
    """A store of a team."""
    return Store(str(root), Stats(), Options(signing_key=str(key_file)))


def test_a_signature_is_hmac_sha256_over_the_head(entry: Entry) -> None:
    data = encode(entry, ONE.sign)
    head = json.loads(data[PREFIX_BYTES : head_end(data)])
    signature = head.pop("signature")
    text = json.dumps(head, sort_keys=True, separators=(",", ":")).encode()
    assert signature == hmac.new(b"one secret of many", b"habana_tf recipe\0" + text, hashlib.sha256).hexdigest()
    assert signed_bytes(decode(data).header) == text
    assert {row[0] for row in head["parts"]} == {"key", "about", *entry.sections}, "every byte has its digest there"


def test_only_the_right_key_will_do(entry: Entry) -> None:
    signed = decode(encode(entry, ONE.sign))
    ONE.check(signed.header)
    with pytest.raises(Refused, match="signed with another key"):
        OTHER.check(signed.header)
    with pytest.raises(Refused, match="not signed"):
        ONE.check(decode(encode(entry)).header)


@pytest.mark.parametrize("field", ["name", "created", "compile_seconds", "failure", "ops"])
def test_the_head_is_signed(entry: Entry, field: str) -> None:
    changed: object = {"name": "other", "created": 1.0, "compile_seconds": 9.0, "failure": "no", "ops": {"Exp": 1}}[
        field
    ]
    header = {**decode(encode(entry, ONE.sign)).header, field: changed}
    with pytest.raises(Refused):
        ONE.check(header)


def test_a_signature_does_not_move_to_other_code(entry: Entry) -> None:
    """What an attacker without the key can make: an intact entry with his code and a signature he has seen."""
    signature = decode(encode(entry, ONE.sign)).header["signature"]
    forged = decode(encode(Entry(entry.header, {"object": b"evil"}), lambda text: signature))
    assert forged.header["signature"] == signature
    with pytest.raises(Refused, match="another key"):
        ONE.check(forged.header)


@pytest.mark.parametrize(("field", "value"), [("signature", "\ud800"), ("created", float("nan")), ("ops", {"A": "x"})])
def test_an_unsigned_head_of_any_content_is_a_miss(signing: Store, entry: Entry, field: str, value: object) -> None:
    """What somebody without the key can put under a name that others look for."""
    assert signing.write(entry)
    (path,) = Path(signing.root).rglob("*.recipe")
    data = path.read_bytes()
    head = json.loads(data[PREFIX_BYTES : head_end(data)])
    text = json.dumps({**head, field: value}).encode()
    start = data[:12] + struct.pack("<I32s", len(text), hashlib.blake2b(text, digest_size=32).digest())
    path.write_bytes(start + text + data[head_end(data) :])
    assert signing.read(entry.digest) is None


def test_nothing_unsigned_is_unpacked(signing: Store, entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes can say that they unpack to a terabyte."""
    data = encode(Entry(entry.header, {"zeros": b"\0" * 100_000}))
    monkeypatch.setattr(entry_format, "_unpacked", lambda *_: pytest.fail("unpacked"))
    with pytest.raises(Refused, match="not signed"):
        signing.decoded(data)


@pytest.mark.usefixtures("propagating")
def test_unsigned_recipes_are_made_anew_and_signed(
    root: Path, signing: Store, entry: Entry, caplog: pytest.LogCaptureFixture
) -> None:
    Store(str(root)).write(entry)
    with caplog.at_level(logging.WARNING, logger="habana_tf"):
        assert signing.read(entry.digest) is None
        assert signing.read(entry.digest) is None
    assert len(caplog.records) == 1 and "dense_relu is not signed" in caplog.text
    assert signing._stats.counts().refused == 2
    assert signing.write(entry)
    found = signing.read(entry.digest)
    assert found is not None and found.sections == entry.sections
    assert Store(str(root)).read(entry.digest) is not None, "without a key signatures do not matter"


@pytest.mark.usefixtures("propagating")
@pytest.mark.parametrize(
    "trouble",
    ["missing", "short", "group writes", "others read", "directory", pytest.param("foreign", marks=as_root)],
)
def test_without_a_good_key_file_the_cache_is_not_used(
    root: Path,
    signing: Store,
    key_file: Path,
    entry: Entry,
    trouble: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert signing.write(entry)
    store = Store(str(root), Stats(), signing.options)
    if trouble in ("missing", "directory"):
        key_file.unlink()
    if trouble == "directory":
        key_file.mkdir()
    if trouble == "short":
        key_file.write_text("0123456789abcde\n")
    if trouble == "foreign":
        os.chown(key_file, 65534, -1)
    if trouble in ("group writes", "others read"):
        key_file.chmod(0o620 if trouble == "group writes" else 0o604)
    with caplog.at_level(logging.WARNING, logger="habana_tf"):
        assert store.read(entry.digest) is None
        assert store.write(entry) is False
    assert len(caplog.records) == 1 and str(key_file) in caplog.text
    assert store._stats.counts().refused == 2


def test_the_group_may_read_the_key(key_file: Path) -> None:
    key_file.chmod(0o640)
    SigningKey.load(str(key_file))


@as_root
def test_a_team_shares_a_directory(root: Path, signing: Store, entry: Entry, make_entry: Callable[..., Entry]) -> None:
    """Files and directories of a colleague, group-writable: believed for the signature alone."""
    root.mkdir(parents=True)
    root.chmod(0o2770)
    assert signing.write(entry)
    forged = make_entry(seed=1)
    (shard := root / "v6" / forged.digest[:2]).mkdir()
    (shard / f"x-{forged.digest}.recipe").write_bytes(encode(forged))
    for path in [root, *root.rglob("*")]:
        os.chown(path, 60001, 60001)
        path.chmod(0o2770 if path.is_dir() else 0o660)
    assert signing.read(entry.digest) is not None
    assert signing.read(forged.digest) is None
    assert signing.write(make_entry(seed=2))
    assert signing.read(make_entry(seed=2).digest) is not None
    unsigned = Store(str(root), Stats())
    assert unsigned.read(entry.digest) is None and unsigned._stats.counts().refused == 1
    for path in root.rglob("*.recipe"):
        assert path.stat().st_mode & 0o777 == 0o660, "colleagues can read and replace what we write"
