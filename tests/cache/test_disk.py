"""The disk level of the cache believes only intact files."""

from __future__ import annotations

import os
import random
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from habana_tf.cache import files
from habana_tf.cache.counters import Stats
from habana_tf.cache.directory import verify
from habana_tf.cache.disk import Store
from habana_tf.cache.entry import Entry, decode, encode
from habana_tf.cache.reader import VERSION


def test_round_trip(store: Store, stats: Stats, root: Path, entry: Entry, stored: Path) -> None:
    found = store.read(entry.digest)
    assert found is not None and found.sections == entry.sections
    assert stored == root / VERSION / entry.digest[:2] / f"dense_relu-{entry.digest}.recipe"
    assert stats.counts().stored == 1


def test_what_is_created_is_private(root: Path, stored: Path) -> None:
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    for directory in (root, *(path for path in root.rglob("*") if path.is_dir())):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_names_become_safe_file_names(store: Store, root: Path, make_entry: Callable[..., Entry]) -> None:
    for seed, name in enumerate(["../../etc/x", "a/b:c d", "", "é" * 300, "..."]):
        entry = make_entry(name=name, seed=seed)
        assert store.write(entry)
        found = store.read(entry.digest)
        assert found is not None and found.name == name
    assert len(list(root.glob(f"{VERSION}/??/*.recipe"))) == 5


def test_a_missing_directory_is_a_quiet_miss(store: Store, entry: Entry, warnings: Callable[[], list[str]]) -> None:
    assert store.read(entry.digest) is None
    assert store.listing() == []
    assert not warnings()


def test_no_temporary_file_stays(root: Path, stored: Path) -> None:
    assert {path.name for path in root.rglob("*") if path.is_file()} == {stored.name, "locks"}


def test_leftovers_of_killed_processes_go(store: Store, entry: Entry, stored: Path) -> None:
    old, young = stored.parent / ".tmp-1-aa", stored.parent / ".tmp-2-bb"
    old.write_bytes(b"half")
    young.write_bytes(b"half")
    os.utime(old, (1.0, 1.0))
    os.utime(young, (time.time() - 2 * files.UNLOCKED_FOR,) * 2)
    assert store.write(entry)
    assert not old.exists() and not young.exists()
    assert len(store.listing()) == 1


def test_use_is_noted_at_most_once_a_minute(store: Store, entry: Entry, stored: Path) -> None:
    os.utime(stored, (1.0, 1.0))
    store.read(entry.digest)
    touched = stored.stat().st_mtime
    assert touched > 1e9
    os.utime(stored, (touched - 30, touched - 30))
    store.read(entry.digest)
    assert stored.stat().st_mtime == pytest.approx(touched - 30, abs=0.01)


# --- damaged entries ---


@pytest.mark.parametrize("damage", ["truncate", "empty", "extend", "header", "payload", "digest", "other"])
def test_a_damaged_entry_is_a_miss_and_put_aside(
    store: Store,
    stats: Stats,
    root: Path,
    entry: Entry,
    stored: Path,
    make_entry: Callable[..., Entry],
    warnings: Callable[[], list[str]],
    damage: str,
) -> None:
    data = bytearray(stored.read_bytes())
    middle = random.Random(damage).randrange(len(data) // 2, len(data) - 32)
    for kind, position in (("header", 60), ("payload", middle), ("digest", len(data) - 1)):
        if damage == kind:
            data[position] ^= 4
    changed = {
        "truncate": bytes(data[:-100]),
        "empty": b"",
        "extend": bytes(data) + b"\0",
        "other": encode(make_entry(seed=5)),
    }
    stored.write_bytes(changed.get(damage, bytes(data)))
    assert store.read(entry.digest) is None
    assert stats.counts().corrupt == 1
    assert not stored.exists()
    assert len(list((root / VERSION / "quarantine").iterdir())) == 1
    assert len(warnings()) == 1 and "damaged" in warnings()[0] and "compiled again" in warnings()[0]
    assert store.write(entry)
    assert store.read(entry.digest) is not None


def test_the_quarantine_is_bounded(store: Store, root: Path, make_entry: Callable[..., Entry]) -> None:
    for seed in range(12):
        entry = make_entry(seed=seed)
        store.write(entry)
        next(root.glob(f"{VERSION}/??/*{entry.digest}.recipe")).write_bytes(b"x")
        assert store.read(entry.digest) is None
    assert len(list((root / VERSION / "quarantine").iterdir())) == 8


def test_a_good_entry_in_the_place_of_a_damaged_one_is_not_put_aside(
    store: Store, root: Path, stored: Path, entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process met the damage too, was faster and has compiled the recipe."""
    stored.write_bytes(stored.read_bytes()[:-1])

    def late(data: bytes) -> Entry:
        Store(str(root)).write(entry)
        return decode(data)

    with monkeypatch.context() as patched:
        patched.setattr(store, "decoded", late)
        assert store.read(entry.digest) is None
    assert store.read(entry.digest) is not None
    assert not list(root.rglob("quarantine/*"))


def test_a_file_of_any_size_is_not_read(
    store: Store, stored: Path, entry: Entry, warnings: Callable[[], list[str]]
) -> None:
    os.truncate(stored, 1 << 40)
    assert store.read(entry.digest) is None
    assert len(warnings()) == 1 and "more than TF_RECIPE_CACHE_SIZE_MB" in warnings()[0]
    ((_, problem),) = verify(store.root).problems
    assert "bytes long instead of" in problem


# --- listing ---


def test_a_listing_shows_good_and_bad_entries(
    store: Store, root: Path, stored: Path, make_entry: Callable[..., Entry]
) -> None:
    store.write(make_entry(name="other", seed=1))
    data = bytearray(stored.read_bytes())
    data[60] ^= 1
    stored.write_bytes(data)
    stored.with_name(stored.name.replace("dense", "link")).symlink_to(stored)
    listed = {Path(row.path).name.split("-")[0]: row for row in store.listing()}
    assert listed["other"].header is not None and listed["other"].header["ops"] == {"MatMul": 1, "Relu": 1}
    assert listed["other"].file_bytes == os.stat(listed["other"].path).st_size
    assert listed["dense_relu"].problem == "the header is damaged"
    assert listed["dense_relu"].last_used == stored.stat().st_mtime
    assert "symbolic link" in str(listed["link_relu"].problem)
    assert stored.exists(), "a listing changes nothing"
