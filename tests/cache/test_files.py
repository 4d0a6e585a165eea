"""File operations that expect other processes; `test_disk_errors` and `test_faults` show them at work."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from habana_tf.cache import files
from habana_tf.files import trust


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def test_what_is_gone() -> None:
    assert files.gone(FileNotFoundError(errno.ENOENT, ""))
    assert files.gone(OSError(errno.ESTALE, "Stale file handle"))
    assert not files.gone(OSError(errno.EACCES, ""))


def test_oldest_first_without_what_vanishes(tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for age, name in enumerate(["c", "a", "b"]):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000 - age,) * 2)
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda fd: [*listdir(fd), "vanished"])
    assert files.oldest_first(folder) == ["b", "a", "c"]


def test_short_writes_are_continued(tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:7]))
    data = os.urandom(1000)
    files.write_atomically(folder, "x", data, trust.OWN)
    assert (tmp_path / "x").read_bytes() == data
    assert os.listdir(tmp_path) == ["x"]


def test_an_interruption_leaves_the_old_file(tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write_atomically(folder, "x", b"old", trust.OWN)

    def interrupt(file: int, data: bytes) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "write", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write_atomically(folder, "x", b"new", trust.OWN)
    assert (tmp_path / "x").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]
