"""No trouble of the disk reaches a compile."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from habana_tf.cache.counters import Stats
from habana_tf.cache.disk import Store
from habana_tf.cache.entry import Entry


@pytest.mark.parametrize("name", ["open", "write", "rename", "mkdir", "listdir"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT])
def test_errors_are_one_warning(
    store: Store,
    stats: Stats,
    root: Path,
    entry: Entry,
    make_entry: Callable[..., Entry],
    monkeypatch: pytest.MonkeyPatch,
    warnings: Callable[[], list[str]],
    name: str,
    number: int,
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, name, fail)
        for seed in range(3):
            assert store.write(make_entry(seed=seed)) is False
    assert stats.counts().failures == 3
    assert len(warnings()) == 1
    assert os.strerror(number) in warnings()[0] and str(root) in warnings()[0]
    assert not [path for path in root.rglob("*") if path.is_file()], "nothing half-written stays"
    assert store.write(entry)


@pytest.mark.parametrize("name", ["open", "read", "listdir"])
def test_errors_while_reading_are_a_miss(
    store: Store,
    entry: Entry,
    stored: Path,
    monkeypatch: pytest.MonkeyPatch,
    warnings: Callable[[], list[str]],
    name: str,
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, name, fail)
        assert store.read(entry.digest) is None
        assert store.read(entry.digest) is None
    assert len(warnings()) == 1
    assert stored.exists()
    assert store.read(entry.digest) is not None


def test_the_root_is_a_file(root: Path, entry: Entry, stats: Stats, warnings: Callable[[], list[str]]) -> None:
    root.parent.mkdir(parents=True)
    root.write_text("not a directory")
    store = Store(str(root), stats)
    assert store.read(entry.digest) is None
    assert store.write(entry) is False
    with store.compiling(entry.digest, 1.0) as taken:
        assert not taken
    assert 1 <= len(warnings()) <= 2


def test_the_directory_is_deleted_under_use(
    store: Store, root: Path, entry: Entry, stored: Path, warnings: Callable[[], list[str]]
) -> None:
    shutil.rmtree(root)
    assert store.read(entry.digest) is None
    with store.compiling(entry.digest, 1.0) as taken:
        assert taken
        shutil.rmtree(root)
        assert store.write(entry)
    assert store.read(entry.digest) is not None
    assert not warnings()


def test_the_directory_is_deleted_while_writing(
    store: Store, root: Path, entry: Entry, monkeypatch: pytest.MonkeyPatch, warnings: Callable[[], list[str]]
) -> None:
    write = os.write

    def delete_once(descriptor: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", write)
        shutil.rmtree(root)
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", delete_once)
    assert store.write(entry)
    assert store.read(entry.digest) is not None
    assert not warnings()


def test_nobody_waits_for_the_disk(store: Store, entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fsync", "fdatasync", "sync"):
        monkeypatch.setattr(os, name, lambda *descriptor: pytest.fail("a write waits for the disk"))
    assert store.write(entry)
    assert store.read(entry.digest) is not None


def test_a_relative_path_in_a_deleted_directory_is_no_error(
    tmp_path: Path, entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    store = Store("recipes", Stats())
    assert store.read(entry.digest) is None and store.write(entry) is False
    monkeypatch.chdir(tmp_path)
