"""Which files are believed: loading a recipe from the cache runs its machine code, a lock decides who has a card.

A directory is trusted when the current user or root owns it and nobody else can write to it. The one exception is
the cache's root itself, which may be a sticky directory such as /tmp: there others can add names but not replace
ours, and everything below is checked again. A file is trusted when it is a regular file of the current user or
root that nobody else can write to.

Invariant: what is checked is what is used. Directories and files are opened first, without following symbolic
links below the root, and the open descriptor is checked; a path is never looked up a second time.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Refused(Exception):
    """Somebody else owns this file or directory or can write to it."""


@contextmanager
def root_directory(path: str, create: bool) -> Iterator[int]:
    """A descriptor of the cache's root. Raises OSError or Refused."""
    if create:
        os.makedirs(path, mode=0o700, exist_ok=True)
    with _opened(path, _DIRECTORY, None) as descriptor:
        status = os.fstat(descriptor)
        check(status, path, sticky_is_fine=True)
        yield descriptor


@contextmanager
def directory(name: str, parent: int, create: bool) -> Iterator[int]:
    """A descriptor of the directory `name` in the open directory `parent`. Raises OSError or Refused."""
    if create:
        with suppress(FileExistsError):
            os.mkdir(name, mode=0o700, dir_fd=parent)
    with _opened(name, _DIRECTORY | os.O_NOFOLLOW, parent) as descriptor:
        check(os.fstat(descriptor), name)
        yield descriptor


@contextmanager
def regular_file(name: str, parent: int, flags: int = os.O_RDONLY) -> Iterator[int]:
    """A descriptor of the file `name` in the open directory `parent`. Raises OSError or Refused.

    With O_CREAT in `flags` a missing file is created for this user alone.
    """
    status = _status(name, parent)
    if status is not None and not stat.S_ISREG(status.st_mode):
        raise Refused(f"{name} is not a regular file")
    # O_NONBLOCK: a pipe put there after the look above must not block the open.
    with _opened(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, parent) as descriptor:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"{name} is not a regular file")
        check(status, name)
        yield descriptor


def read_all(descriptor: int) -> bytes:
    """The whole file. Read, not mapped: a mapped file that shrinks kills the process."""
    pieces = []
    while piece := os.read(descriptor, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


@contextmanager
def _opened(name: str, flags: int, parent: int | None) -> Iterator[int]:
    try:
        descriptor = os.open(name, flags, 0o600, dir_fd=parent)
    except OSError as error:
        if flags & os.O_NOFOLLOW and error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise Refused(f"{name} is a symbolic link or no directory") from error
        raise
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _status(name: str, parent: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def check(status: os.stat_result, name: str, sticky_is_fine: bool = False) -> None:
    """Raises Refused when somebody but this user or root owns an opened file or directory or can write to it."""
    if status.st_uid not in (os.geteuid(), 0):
        raise Refused(f"{name} belongs to user {status.st_uid}")
    if status.st_mode & _OTHERS_WRITE and not (sticky_is_fine and status.st_mode & stat.S_ISVTX):
        raise Refused(f"{name} can be written by others (mode {stat.S_IMODE(status.st_mode):o}): chmod go-w it")
