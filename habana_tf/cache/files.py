"""File operations of the cache, each on a name in an open directory.

Invariants: a file appears under its name whole or not at all; nothing here follows a symbolic link. Whatever another
process does at the same moment is an OSError for which `gone` is true, or no trouble.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import time
from contextlib import suppress

from habana_tf.files import trust
from habana_tf.files.trust import Policy

SUFFIX, TEMPORARY = ".recipe", ".tmp-"
TOUCH_AFTER = 60.0
"""Seconds after which a use is noted again."""
TEMPORARY_IS_STALE_AFTER = 3600.0
UNLOCKED_FOR = 1.0
"""Seconds a temporary file may be there before its writer has locked it."""


def gone(error: OSError) -> bool:
    """Whether a file or directory was deleted under us; a network file system calls that a stale handle."""
    return isinstance(error, FileNotFoundError) or error.errno == errno.ESTALE


def contents(name: str, parent: int, policy: Policy, most: int, touched: bool = False) -> bytes:
    """What is in a file that is believed. touched: its use is noted. Raises trust.Refused, or OSError, which it is too
    when there are more than `most` bytes."""
    file, status = trust.opened_to_read(name, parent, policy)
    try:
        check_size(status.st_size, most)
        data = trust.read_all(file, status.st_size)
        if touched:
            touch(file, status.st_mtime)
        return data
    finally:
        os.close(file)


def check_size(size: int, most: int) -> None:
    """Raises OSError for a file that no store with this limit has written: it may be as large as a forger likes."""
    if size > most:
        raise OSError(errno.EFBIG, f"{size} bytes, more than TF_RECIPE_CACHE_SIZE_MB allows")


def find(shard: int, digest: str) -> str | None:
    """The file name of a key in its directory; the readable part of the name is not known to a lookup."""
    ending = f"-{digest}{SUFFIX}"
    return min((name for name in os.listdir(shard) if name.endswith(ending)), default=None)


def file_name(name: str, digest: str) -> str:
    """The file name of a new entry: as much of the cluster's name as is safe, and the key."""
    return f"{readable(name)}-{digest}{SUFFIX}"


def readable(name: str) -> str:
    """What of a cluster's name is safe in a file name."""
    return re.sub(r"[^A-Za-z0-9_.]+", "_", name).strip("._")[:64] or "recipe"


def write_atomically(shard: int, name: str, data: bytes, policy: Policy) -> None:
    """Puts `data` under `name`. Raises OSError and leaves nothing then.

    It does not wait for the disk, which takes as long as compiling a small recipe: what a power cut leaves half-written
    fails its digest, and is made again.
    """
    remove_stale_temporaries(shard)
    temporary = f"{TEMPORARY}{os.getpid()}-{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    mode = trust.file_mode(shard, policy)
    file = os.open(temporary, flags, mode, dir_fd=shard)
    try:
        try:
            with suppress(OSError):  # no locks here: then its age tells (`abandoned`)
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if mode != 0o600:
                os.fchmod(file, mode)  # whatever the umask is
            trust.hand_over(file, shard, policy)
            write_all(file, data)
        finally:
            os.close(file)
        os.rename(temporary, name, src_dir_fd=shard, dst_dir_fd=shard)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=shard)
        raise


def write_all(file: int, data: bytes) -> None:
    """Writes to the end of `data`."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def remove_stale_temporaries(shard: int) -> None:
    """Removes what killed processes left behind."""
    for name in os.listdir(shard):
        if name.startswith(TEMPORARY):
            with suppress(OSError):
                left = abandoned(shard, name)
                if left is None:
                    written = os.stat(name, dir_fd=shard, follow_symlinks=False).st_mtime
                    # A time in the future is a clock set back since.
                    left = abs(time.time() - written) > TEMPORARY_IS_STALE_AFTER
                if left:
                    os.unlink(name, dir_fd=shard)


def abandoned(shard: int, name: str) -> bool | None:
    """Whether no living process writes the temporary file `name` any more, or None where that cannot be told.

    Its lock tells, which ends with the process, on whatever host or in whatever container that is. A file written to
    within the last `UNLOCKED_FOR` seconds counts as written, and its lock is not tried: its writer may be about to
    take it, and would not get it while we hold it.
    """
    try:
        file = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=shard)
    except OSError:  # of another user, say
        return None
    try:
        if abs(time.time() - os.fstat(file).st_mtime) < UNLOCKED_FOR:
            return False
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError:
        return None
    finally:
        os.close(file)


def touch(file: int, modified: float) -> None:
    """Notes the use of an entry in its modification time, which was `modified`, at most once a minute."""
    if abs(time.time() - modified) > TOUCH_AFTER:
        with suppress(OSError):
            os.utime(file)


def oldest_first(directory: int) -> list[str]:
    """The names in a directory, by modification time; what vanishes meanwhile is left out."""
    times = {}
    for name in os.listdir(directory):
        with suppress(OSError):
            times[name] = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mtime
    return sorted(times, key=lambda name: times[name])
