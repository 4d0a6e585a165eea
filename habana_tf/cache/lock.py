"""Locks between processes, one per key, all in one file.

Each key locks its own byte of the lock file, so no lock files pile up and none is ever removed under a waiter.
Open-file-description locks (Linux) are used: the kernel drops them when the holder dies, however it dies, and two
descriptors of one process exclude each other. There are no stale locks to recognise.

On NFS they become locks of the server, which frees those of a dead client when its lease ends (90 s by default, above
the time anybody waits here). Where a file system has no locks, as NFS without its lock service, `LockUnavailable`
says so.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_FLOCK = struct.Struct("hhqqi0q")
_HELD_ELSEWHERE = (errno.EAGAIN, errno.EACCES)
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)


class LockUnavailable(OSError):
    """The file system (or the kernel) knows no locks of this kind."""


@contextmanager
def byte_lock(descriptor: int, digest: str, timeout: float) -> Iterator[bool]:
    """Holds the lock of the key `digest` (hexadecimal) in the open file `descriptor`.

    Yields whether it was taken within `timeout` seconds; without it the caller goes on. Raises LockUnavailable
    where the file system knows no locks, and OSError for other trouble.
    """
    start = int(digest[:15], 16)
    taken = _wait(descriptor, start, time.monotonic() + timeout)
    try:
        yield taken
    finally:
        if taken:
            # Released by name, not by closing: a child forked meanwhile holds a copy of the descriptor.
            with suppress(OSError):
                _set(descriptor, fcntl.F_UNLCK, start)


def _wait(descriptor: int, start: int, deadline: float) -> bool:
    pause = 0.001
    while True:
        try:
            _set(descriptor, fcntl.F_WRLCK, start)
            return True
        except OSError as error:
            if error.errno in _NO_LOCKS:
                raise LockUnavailable(error.errno, f"the file system has no locks ({error.strerror})") from error
            if error.errno not in _HELD_ELSEWHERE:
                raise
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _set(descriptor: int, kind: int, start: int) -> None:
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, start, 1, 0))
