"""The per-key lock excludes processes and threads, ends with its holder, and never blocks for ever."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from habana_tf.cache import lock
from habana_tf.cache.lock import byte_lock

ONE, OTHER = "1" * 64, "2" * 64
HOLDER = """
import os, sys, time
from habana_tf.cache.lock import byte_lock
with byte_lock(os.open(sys.argv[1], os.O_RDWR), sys.argv[2], 1.0) as taken:
    print(taken, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "locks").touch()
    return tmp_path / "locks"


@pytest.fixture
def descriptor(file: Path) -> Iterator[int]:
    descriptor = os.open(file, os.O_RDWR)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def holder(file: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock of the key ONE."""
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(file), ONE], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "True\n"
        yield process
        process.kill()


def test_one_holder_at_a_time_and_keys_do_not_meet(holder: subprocess.Popen[str], descriptor: int) -> None:
    start = time.monotonic()
    with byte_lock(descriptor, ONE, 0.2) as taken:
        assert not taken
    assert 0.2 <= time.monotonic() - start < 60
    with byte_lock(descriptor, OTHER, 0.2) as taken:
        assert taken


def test_a_killed_holder_frees_the_lock(holder: subprocess.Popen[str], descriptor: int) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    with byte_lock(descriptor, ONE, 10.0) as taken:
        assert taken


def test_descriptors_of_one_process_exclude_each_other(file: Path, descriptor: int) -> None:
    second = os.open(file, os.O_RDWR)
    with byte_lock(descriptor, ONE, 1.0), byte_lock(second, ONE, 0.01) as taken:
        assert not taken
    with byte_lock(second, ONE, 1.0) as taken:
        assert taken
    os.close(second)


def test_a_forked_child_does_not_keep_the_lock(file: Path, descriptor: int) -> None:
    with byte_lock(descriptor, ONE, 1.0):
        child = subprocess.Popen(["sleep", "60"], pass_fds=[descriptor])
    try:
        second = os.open(file, os.O_RDWR)
        with byte_lock(second, ONE, 0.01) as taken:
            assert taken
        os.close(second)
    finally:
        child.kill()
        child.wait()


def test_no_lock_file_grows(file: Path, descriptor: int) -> None:
    with byte_lock(descriptor, "f" * 64, 1.0) as taken:
        assert taken
    assert file.stat().st_size == 0


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_named(descriptor: int, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(lock, "_set", fail)
    with pytest.raises(lock.LockUnavailable, match="the file system has no locks"), byte_lock(descriptor, ONE, 1.0):
        pass
