"""What is opened is what was checked; `test_store` shows the rules at work on a whole cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from habana_tf import trust


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def test_a_file_is_read_whole(tmp_path: Path, parent: int) -> None:
    data = os.urandom(3 << 20)
    (tmp_path / "f").write_bytes(data)
    (tmp_path / "f").chmod(0o644)
    with trust.regular_file("f", parent) as file:
        assert trust.read_all(file) == data


def test_a_missing_file_is_missing_unless_created(tmp_path: Path, parent: int) -> None:
    with pytest.raises(FileNotFoundError), trust.regular_file("f", parent):
        pass
    with trust.regular_file("f", parent, os.O_RDWR | os.O_CREAT):
        pass
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600


def test_a_link_put_there_after_the_look_is_not_followed(
    tmp_path: Path, parent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "target").write_bytes(b"x")
    (tmp_path / "target").chmod(0o600)
    (tmp_path / "f").symlink_to("target")
    monkeypatch.setattr(trust, "_status", lambda name, parent: None)
    with pytest.raises(trust.Refused, match="symbolic link"), trust.regular_file("f", parent):
        pass


def test_a_pipe_put_there_after_the_look_does_not_block(
    tmp_path: Path, parent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "f")
    monkeypatch.setattr(trust, "_status", lambda name, parent: None)
    with pytest.raises(trust.Refused, match="not a regular file"), trust.regular_file("f", parent):
        pass


def test_a_file_in_place_of_a_directory_is_refused(tmp_path: Path, parent: int) -> None:
    (tmp_path / "d").write_bytes(b"x")
    with pytest.raises(trust.Refused, match="no directory"), trust.directory("d", parent, create=True):
        pass


def test_no_descriptor_leaks(tmp_path: Path, parent: int) -> None:
    (tmp_path / "bad").write_bytes(b"x")
    (tmp_path / "bad").chmod(0o666)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(trust.Refused), trust.regular_file("bad", parent):
            pass
        with trust.directory("d", parent, create=True):
            pass
    assert len(os.listdir("/proc/self/fd")) == before
