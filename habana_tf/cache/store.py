"""The disk level: one directory of entries that many processes share.

    <root>/v1/<kk>/<name>-<sha256>.recipe     kk = first two digits of the key's SHA-256
    <root>/v1/locks                           one byte per key, locked while a recipe is compiled
    <root>/v1/quarantine/                     the last damaged entries, for whoever wants to know why

A store never hurts: whatever is wrong with the disk, an entry or the directory makes a miss and a warning, and the
compile goes on. Nothing stays open between calls, so the directory may be deleted at any time and comes back.

Invariants: an entry appears under its name whole or not at all (temporary file, fsync, rename); it is believed
only after `trust` accepted the file and `entry.decode` its contents; only damaged entries are moved away, never
those of somebody else.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from habana_tf import trust
from habana_tf.cache import entry as entry_format
from habana_tf.cache.entry import Entry, EntryError
from habana_tf.cache.lock import byte_lock
from habana_tf.cache.stats import Stats

_VERSION = f"v{entry_format.FORMAT_VERSION}"
_LOCKS, _QUARANTINE, _SUFFIX, _TEMPORARY = "locks", "quarantine", ".recipe", ".tmp-"
_TOUCH_AFTER = 60.0
_TEMPORARY_IS_STALE_AFTER = 3600.0
_QUARANTINE_KEEPS = 8

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Listed:
    """An entry as a listing shows it: its header, or what is wrong with it. Times in seconds since the epoch."""

    path: str
    file_bytes: int
    last_used: float
    header: dict[str, Any] | None
    problem: str | None


class Store:
    """The cache directory `root`. Every method may be called from any thread."""

    def __init__(self, root: str, stats: Stats) -> None:
        self.path = root
        self.root = os.path.abspath(root)
        self._stats = stats
        self._warned: set[object] = set()

    def read(self, digest: str) -> Entry | None:
        """The entry of the key `digest`, verified, or None."""
        try:
            return self._read(digest)
        except FileNotFoundError:
            return None
        except trust.Refused as error:
            self._stats.add(refused=1)
            self._warn_once(("refused", str(error)), f"{error}; recipes there are not used")
        except OSError as error:
            self._failed("read", error)
        return None

    def write(self, entry: Entry) -> bool:
        """Writes the entry; False when it could not be, after a warning."""
        data = entry_format.encode(entry)
        for attempt in (1, 2):
            try:
                with self._shard(entry.digest, create=True) as shard:
                    name = _find(shard, entry.digest) or f"{_readable(entry.name)}-{entry.digest}{_SUFFIX}"
                    _write_atomically(shard, name, data)
                self._stats.add(stored=1)
                return True
            except FileNotFoundError as error:
                # Somebody deleted the directory between two of our steps; once more from the start.
                if attempt == 2:
                    self._failed("write", error)
            except trust.Refused as error:
                self._stats.add(refused=1)
                self._warn_once(("refused", str(error)), f"{error}; recipes are not stored there")
                break
            except OSError as error:
                self._failed("write", error)
                break
        return False

    @contextmanager
    def compiling(self, digest: str, timeout: float) -> Iterator[bool]:
        """Keeps other processes from compiling the key `digest` at the same time.

        Yields whether the lock was taken; without it (after `timeout` seconds, or when the disk has no locks) the
        caller compiles all the same.
        """
        with ExitStack() as held:
            taken = False
            try:
                with self._version(create=True) as version:
                    flags = os.O_RDWR | os.O_CREAT
                    descriptor = held.enter_context(trust.regular_file(_LOCKS, version, flags))
                taken = held.enter_context(byte_lock(descriptor, digest, timeout))
            except (trust.Refused, FileNotFoundError):
                pass  # `read` and `write` meet the same and say so
            except OSError as error:
                self._failed("write", error)
            yield taken

    def listing(self) -> list[Listed]:
        """Every entry, sorted by path. Only headers are read and verified. Raises OSError or trust.Refused when
        the directory itself cannot be read; a missing one is empty."""
        listed: list[Listed] = []
        with suppress(FileNotFoundError), self._version(create=False) as version:
            for name in sorted(os.listdir(version)):
                if re.fullmatch("[0-9a-f]{2}", name):
                    listed += self._list_shard(version, name)
        return listed

    def inspect(self, listed: Listed) -> Entry:
        """The whole entry of a listing, verified; nothing is counted, touched or moved. Raises EntryError,
        trust.Refused or OSError."""
        shard_name, name = os.path.split(os.path.relpath(listed.path, os.path.join(self.root, _VERSION)))
        with (
            self._version(create=False) as version,
            trust.directory(shard_name, version, create=False) as shard,
            trust.regular_file(name, shard) as file,
        ):
            return entry_format.decode(trust.read_all(file))

    def _list_shard(self, version: int, shard_name: str) -> list[Listed]:
        try:
            with trust.directory(shard_name, version, create=False) as shard:
                names = sorted(name for name in os.listdir(shard) if name.endswith(_SUFFIX))
                return [self._list_one(shard, shard_name, name) for name in names]
        except (trust.Refused, OSError) as error:
            return [Listed(os.path.join(self.root, _VERSION, shard_name), 0, 0.0, None, str(error))]

    def _list_one(self, shard: int, shard_name: str, name: str) -> Listed:
        path = os.path.join(self.root, _VERSION, shard_name, name)
        status = None
        try:
            with trust.regular_file(name, shard) as file:
                status = os.fstat(file)
                start = os.pread(file, entry_format.PREFIX_BYTES, 0)
                start += os.pread(file, entry_format.header_end(start) - len(start), len(start))
                header = entry_format.decode_header(start, status.st_size)
            return Listed(path, status.st_size, status.st_mtime, header, None)
        except (EntryError, trust.Refused, OSError) as error:
            size, used = (status.st_size, status.st_mtime) if status else (0, 0.0)
            return Listed(path, size, used, None, str(error))

    def _read(self, digest: str) -> Entry | None:
        with self._shard(digest, create=False) as shard:
            name = _find(shard, digest)
            if name is None:
                return None
            try:
                data = _use(shard, name)
            except FileNotFoundError:
                # Listed but gone: replaced at this moment, or a stale answer of a network file system.
                data = _use(shard, name)
            try:
                found = entry_format.decode(data)
                if found.digest != digest:
                    raise EntryError("it holds another key")
                return found
            except EntryError as error:
                self._quarantine(shard, name)
                self._stats.add(corrupt=1)
                self._warn_once(("corrupt", name), f"{name} is damaged ({error}); it is compiled again")
                return None

    def _quarantine(self, shard: int, name: str) -> None:
        """Moves a damaged entry out of the way, or removes it; on a read-only disk it stays."""
        try:
            with self._version(create=False) as version, trust.directory(_QUARANTINE, version, True) as bin_:
                os.rename(name, name, src_dir_fd=shard, dst_dir_fd=bin_)
                for old in _oldest_first(bin_)[:-_QUARANTINE_KEEPS]:
                    os.unlink(old, dir_fd=bin_)
        except (OSError, trust.Refused):
            with suppress(OSError):
                os.unlink(name, dir_fd=shard)

    @contextmanager
    def _version(self, create: bool) -> Iterator[int]:
        with (
            trust.root_directory(self.root, create) as root,
            trust.directory(_VERSION, root, create) as version,
        ):
            yield version

    @contextmanager
    def _shard(self, digest: str, create: bool) -> Iterator[int]:
        with self._version(create) as version, trust.directory(digest[:2], version, create) as shard:
            yield shard

    def _failed(self, operation: str, error: OSError) -> None:
        self._stats.add(failures=1)
        reason = error.strerror or str(error)
        self._warn_once((operation, error.errno), f"cannot {operation} recipes: {reason}; going on without")

    def _warn_once(self, kind: object, message: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            _log.warning("recipe cache %s: %s", self.root, message)


def _find(shard: int, digest: str) -> str | None:
    """The file name of the key in its directory; the readable part of the name is not known to a lookup."""
    ending = f"-{digest}{_SUFFIX}"
    return min((name for name in os.listdir(shard) if name.endswith(ending)), default=None)


def _readable(name: str) -> str:
    """The cluster's name as part of a file name."""
    return re.sub(r"[^A-Za-z0-9_.]+", "_", name).strip("._")[:64] or "recipe"


def _write_atomically(shard: int, name: str, data: bytes) -> None:
    _remove_stale_temporaries(shard)
    temporary = f"{_TEMPORARY}{os.getpid()}-{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(temporary, flags, 0o600, dir_fd=shard)
    try:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(file, rest) :]
            os.fsync(file)
        finally:
            os.close(file)
        os.rename(temporary, name, src_dir_fd=shard, dst_dir_fd=shard)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=shard)
        raise


def _remove_stale_temporaries(shard: int) -> None:
    """Removes what killed processes left behind."""
    for name in os.listdir(shard):
        if name.startswith(_TEMPORARY):
            with suppress(OSError):
                age = time.time() - os.stat(name, dir_fd=shard, follow_symlinks=False).st_mtime
                if age > _TEMPORARY_IS_STALE_AFTER:
                    os.unlink(name, dir_fd=shard)


def _use(shard: int, name: str) -> bytes:
    with trust.regular_file(name, shard) as file:
        data = trust.read_all(file)
        _touch(file)
    return data


def _touch(file: int) -> None:
    """Notes the use of an entry in its modification time, at most once a minute."""
    with suppress(OSError):
        if time.time() - os.fstat(file).st_mtime > _TOUCH_AFTER:
            os.utime(file)


def _oldest_first(directory: int) -> list[str]:
    names = os.listdir(directory)
    return sorted(names, key=lambda name: os.stat(name, dir_fd=directory, follow_symlinks=False).st_mtime)
