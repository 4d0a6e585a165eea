"""The disk level: one directory of entries that many processes share.

A store never hurts: whatever is wrong with the disk, an entry or the directory makes a miss and a warning, and the
compile goes on. `reader` says how the directory is laid out and what is believed.

Invariants: an entry appears under its name whole or not at all (temporary file, rename; a power cut's half entries fail
their digest); only damaged entries are moved away, never those of another user; in mode ro nothing changes on disk.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from habana_tf.cache import files
from habana_tf.cache.bounds import QUARANTINE, Bounds, sweep
from habana_tf.cache.counters import Stats
from habana_tf.cache.entry import Entry
from habana_tf.cache.entry_head import EntryError
from habana_tf.cache.listing import shards, start_of
from habana_tf.cache.lock import LockUnavailable, byte_lock
from habana_tf.cache.reader import Options, Reader
from habana_tf.files import trust
from habana_tf.files.escaped import escaped
from habana_tf.files.trust import Refused

_LOCKS = "locks"
SWEEPING, ROTATING = (hashlib.sha256(what).hexdigest() for what in (b"sweep", b"rotate"))
_QUARANTINE_KEEPS = 8

_OTHER = "choose another directory by TF_RECIPE_CACHE_PATH"
_READ_ONLY = "say by HABANA_SIM_CACHE_MODE=ro that it is only to be read"
_REMEDIES = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), f". Make it yours (chown, chmod -R u+rwX), {_OTHER}, or {_READ_ONLY}"),
    errno.EROFS: f". Mount it for writing, {_OTHER}, or {_READ_ONLY}",
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), f". Free some space (`habana-tf recipes prune`), or {_OTHER}"),
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), f". A file is in the way: {_OTHER}"),
}
"""What to do about an error of the file system, by its number."""

_log = logging.getLogger(__name__)


Note = Callable[[str, str, str], None]
"""Told of an event (`journal.EVENTS`), and the recipe's name or how many, and the key."""


def _unnoted(event: str, name: str, digest: str) -> None:
    """For a store that only looks."""


class Store(Reader):
    """The cache directory `root` of a process that compiles. Every method may be called from any thread."""

    def __init__(
        self, root: str, stats: Stats | None = None, options: Options | None = None, note: Note = _unnoted
    ) -> None:
        super().__init__(root, options)
        self._stats = stats or Stats()
        self._note = note
        self._started = time.time()
        self._bounds = Bounds(self.options.limit)
        self._warned: set[object] = set()

    def read(self, digest: str) -> Entry | None:
        """The entry of the key `digest`, verified, or None.

        In mode refresh only what was made since this store began is found.
        """
        try:
            found = self._read(digest)
            if found is not None and self.options.mode == "refresh" and found.created < self._started:
                self._note("renewed", found.name, digest)
                return None
            return found
        except Refused as error:
            self._refused(error, "it is not used", digest)
        except OSError as error:
            if not files.gone(error):
                self._failed("read recipes", error)
        return None

    def has(self, name: str) -> bool:
        """Whether there is an entry of the cluster `name`, by the names of files alone: nothing is read or verified."""
        return self.options.mode != "refresh" and next(self._of_name(name), None) is not None

    def is_empty(self) -> bool:
        """Whether there is nothing to find, by the names of directories alone; in mode refresh nothing counts."""
        with suppress(OSError, Refused), self.version(create=False) as version:
            return self.options.mode == "refresh" or not shards(version)
        return True

    def of_program(self, program: str, name: str) -> Entry | None:
        """The recipe of another key of the cluster `name` that is for the program with this digest, verified, or None.

        What fixes an input's value is in the key, and often not in the program: a slice at another place is one.
        """
        for shard, file_name in self._of_name(name):
            with suppress(OSError, Refused):
                digest = self._for_program(program, file_name, shard)
                if digest is not None and (found := self.read(digest)) is not None:
                    return found
        return None

    def _of_name(self, name: str) -> Iterator[tuple[int, str]]:
        """The open directory and the file name of every entry of the cluster `name`."""
        start = files.readable(name) + "-"
        with suppress(OSError, Refused), self.version(create=False) as version:
            for shard_name in shards(version):
                with suppress(OSError, Refused), trust.directory(shard_name, version, False, self.policy) as shard:
                    for file_name in [each for each in os.listdir(shard) if each.startswith(start)]:
                        yield shard, file_name

    def _for_program(self, program: str, file_name: str, shard: int) -> str | None:
        """The key of the entry in a file, if it is for the program. Raises OSError or Refused."""
        with suppress(EntryError), trust.regular_file(file_name, shard, policy=self.policy) as file:
            header = start_of(file).header
            return str(header["digest"]) if header.get("program") == program else None
        return None

    def write(self, entry: Entry) -> bool:
        """Writes the entry; False when it could not be, after a warning, or may not be."""
        if not self.options.writable:
            return False
        try:
            return self.put(entry, self.encoded(entry))
        except Refused as error:
            self._refused(error, "recipes are not stored", entry.digest)
            return False

    def put(self, entry: Entry, data: bytes) -> bool:
        """Writes an entry whose file contents are `data`; as `write`."""
        if len(data) > self.options.limit:
            self._warn_once("size", f"a recipe of {len(data)} bytes is above TF_RECIPE_CACHE_SIZE_MB: not kept")
            return False
        for attempt in (1, 2):
            try:
                with self.shard(entry.digest, create=True) as shard:
                    name = files.find(shard, entry.digest) or files.file_name(entry.name, entry.digest)
                    files.write_atomically(shard, name, data, self.policy)
                self._stats.add(stored=1)
                if self._bounds.wrote(len(data)):
                    self._evict()
                return True
            except Refused as error:
                self._refused(error, "recipes are not stored", entry.digest)
                break
            except OSError as error:
                # Somebody deleted the directory between two of our steps: once more from the start.
                if attempt == 2 or not files.gone(error):
                    self._failed("write recipes", error)
                    break
        return False

    @contextmanager
    def compiling(self, digest: str, timeout: float) -> Iterator[bool]:
        """Keeps other processes from compiling the key `digest` at the same time.

        Yields whether the lock was taken; without it (after `timeout` seconds, when the disk has no locks, or in mode
        ro) the caller compiles all the same.
        """
        with ExitStack() as held:
            taken = False
            if self.options.writable:
                try:
                    taken = held.enter_context(self.locked(digest, timeout))
                except Refused:
                    pass  # `read` and `write` meet the same and say so
                except LockUnavailable as error:
                    self._stats.add(failures=1)
                    self._warn_once("locks", f"{error}; processes may compile a recipe that another one is compiling")
                except OSError as error:
                    if not files.gone(error):
                        self._failed("write recipes", error)
            yield taken

    @contextmanager
    def locked(self, digest: str, timeout: float) -> Iterator[bool]:
        """Holds the lock of a key between processes, if it comes free within `timeout` seconds. Raises OSError."""
        with (
            self.version(create=True) as version,
            trust.regular_file(_LOCKS, version, os.O_RDWR | os.O_CREAT, self.policy) as descriptor,
            byte_lock(descriptor, digest, timeout) as taken,
        ):
            yield taken

    @contextmanager
    def alone(self, work: str) -> Iterator[bool]:
        """Whether this process is the one to do some upkeep now, `SWEEPING` or `ROTATING`. Where there are no locks
        each one is, for doing it twice costs time and nothing else. Raises OSError."""
        with ExitStack() as held:
            try:
                mine = held.enter_context(self.locked(work, 0.0))
            except LockUnavailable:
                mine = True
            yield mine

    def _read(self, digest: str) -> Entry | None:
        with self.shard(digest, create=False) as shard:
            name = files.find(shard, digest)
            if name is None:
                return None
            try:
                data = self._use(shard, name)
            except OSError as error:
                # Listed but gone: replaced at this moment, or a stale answer of a network file system.
                if not files.gone(error):
                    raise
                data = self._use(shard, name)
            try:
                found = self.decoded(data)
                if found.digest != digest:
                    raise EntryError("it holds another key")
                return found
            except EntryError as error:
                self._stats.add(corrupt=1)
                self._note("corrupt", name.rpartition("-")[0], digest)
                rest = "and left there" if not self.options.writable else "and put aside"
                if self.options.writable:
                    self._quarantine(shard, name, data)
                self._warn_once(("corrupt", name), f"{name} is damaged ({error}) {rest}; it is compiled again")
                return None

    def _use(self, shard: int, name: str) -> bytes:
        return files.contents(name, shard, self.policy, self.options.limit, touched=self.options.writable)

    def _quarantine(self, shard: int, name: str, damaged: bytes) -> None:
        """Moves a damaged entry out of the way, or removes it; on a read-only disk it stays. So does what another
        process has put in its place meanwhile."""
        try:
            if self._use(shard, name) != damaged:
                return
            with (
                self.version(create=False) as version,
                trust.directory(QUARANTINE, version, True, self.policy) as bin_,
            ):
                os.rename(name, name, src_dir_fd=shard, dst_dir_fd=bin_)
                for old in files.oldest_first(bin_)[:-_QUARANTINE_KEEPS]:
                    os.unlink(old, dir_fd=bin_)
        except (OSError, Refused) as error:
            if isinstance(error, OSError) and files.gone(error):
                return
            with suppress(OSError):
                os.unlink(name, dir_fd=shard)

    def _evict(self) -> None:
        """Sweeps if the directory is too large; one process at a time, and never an error."""
        with suppress(OSError, Refused), self.alone(SWEEPING) as taken, self.opened(create=False) as root:
            if not taken:
                return
            swept = sweep(root, self.policy, None)
            if swept.kept_bytes > self.options.limit:
                swept = sweep(root, self.policy, self._bounds.low_water, minimum_age=self.options.minimum_age)
                self._stats.add(evicted=swept.removed, evicted_bytes=swept.removed_bytes)
                self._note("evicted", str(swept.removed), "")
            self._bounds.swept(swept.kept_bytes)

    def _refused(self, error: Refused, consequence: str, digest: str) -> None:
        self._stats.add(refused=1)
        self._note("refused", error.kind, digest)
        self._warn_once(("refused", error.kind), f"{error}; {consequence}")

    def _failed(self, operation: str, error: OSError) -> None:
        self._stats.add(failures=1)
        reason = error.strerror or str(error)
        remedy = _REMEDIES.get(error.errno or 0, "")
        self._warn_once((operation, error.errno), f"cannot {operation}: {reason}; going on without{remedy}")

    def _warn_once(self, kind: object, message: str) -> None:
        with self._lock:
            known = kind in self._warned
            self._warned.add(kind)
        if not known:
            _log.warning("recipe cache %s: %s", escaped(self.root), escaped(message))
