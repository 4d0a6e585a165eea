"""The two levels of the recipe cache, memory before disk, and one compilation per key.

The memory level keeps entries of this process up to a bound, least recently used out first. The disk level is the
directory that TF_RECIPE_CACHE_PATH names at the moment of the call; unset, or with HABANA_SIM_CACHE_MODE=off, there
is none.

A cluster that cannot be compiled is kept like a recipe, with the reason and for an hour: its launches are interpreted,
and finding out again would cost every process the same time. Only the compiler's own answer that it does not fit is
kept so; an interruption, a time-out or lack of memory says nothing about the cluster.

Invariants: one thread of one process compiles a key while all others who ask wait for it (within the process
always, between processes up to a timeout); nothing is logged and no file is touched under the memory level's lock.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from habana_tf import settings
from habana_tf.cache import journal
from habana_tf.cache.counters import Stats
from habana_tf.cache.disk import Store
from habana_tf.cache.entry import Entry
from habana_tf.cache.key import Key
from habana_tf.cache.reader import Options

__all__ = ["FAILURE_SECONDS", "LOCK_TIMEOUT", "MEMORY_BYTES", "KnownFailure", "RecipeCache"]

MEMORY_BYTES = 64 << 20
LOCK_TIMEOUT = 60.0
FAILURE_SECONDS = 3600.0
"""How long a failed compilation is remembered."""
_FAILURE_BYTES = 4096
"""What a remembered failure counts for in memory."""


class KnownFailure(Exception):
    """This key was tried and cannot be compiled. reason: the compiler's, as it was."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass
class _InFlight:
    """Threads of this process that compile one key or wait for it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0


class RecipeCache:
    """The recipe cache of one process."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES, lock_timeout: float = LOCK_TIMEOUT) -> None:
        self.stats = Stats()
        self._memory: OrderedDict[str, Entry] = OrderedDict()
        self._memory_bytes = 0
        self._memory_limit = memory_bytes
        self._lock_timeout = lock_timeout
        self._guard = threading.Lock()
        self._in_flight: dict[str, _InFlight] = {}
        self._disk: Store | None = None
        self._journal = journal.Journal()
        self._later: threading.Timer | None = None
        self._process = os.getpid()

    def lookup(self, key: Key, name: str = "") -> Entry | None:
        """The recipe of `key` from memory or disk, or None. Counts a hit or a miss. Raises KnownFailure.

        name: the cluster's, for the journal.
        """
        entry = self._remembered(key.digest)
        if entry is not None and entry.failure is None:
            self.stats.add(memory_hits=1)
            return entry
        entry = entry or self._from_disk(key.digest)
        if entry is None:
            self.stats.add(misses=1)
            self._note("miss", name, key.digest, missed=key)
            return None
        self._raise_if_known_to_fail(entry)
        self.stats.add(disk_hits=1, saved_seconds=entry.compile_seconds)
        self._note("hit", entry.name, entry.digest, entry.compile_seconds)
        return entry

    def store(
        self,
        key: Key,
        name: str,
        header: Mapping[str, Any],
        sections: Mapping[str, bytes],
        compile_seconds: float,
    ) -> Entry:
        """Keeps a recipe that was just compiled, in memory and, if there is one, in the directory.

        `header` is JSON data as described in `entry`; trouble with the disk is a warning and never raised.
        """
        self.stats.add(compiled=1, compile_seconds=compile_seconds)
        self._note("compiled", name, key.digest, compile_seconds)
        return self._keep(key, name, header, sections, compile_seconds)

    def store_failure(
        self, key: Key, name: str, header: Mapping[str, Any], reason: str, compile_seconds: float
    ) -> Entry:
        """Keeps, for `FAILURE_SECONDS`, that a cluster cannot be compiled. reason: why, for people."""
        self.stats.add(failed=1, compile_seconds=compile_seconds)
        self._note("failed", name, key.digest, compile_seconds)
        return self._keep(key, name, {**header, "failure": reason}, {}, compile_seconds)

    @contextmanager
    def compiling(self, key: Key, program: str | None = None, name: str = "") -> Iterator[Entry | None]:
        """Held around a compilation after a miss.

        program: the digest of what is compiled, which other keys of the cluster `name` may come to as well; the header
        of its recipe has it as `program`. Yields the entry if somebody else compiled it, in the meantime or for such a
        key, and None to the one who has to. Raises KnownFailure if somebody else found that it cannot be.
        """
        digest = key.digest
        work = program or digest
        with self._guard:
            flight = self._in_flight.setdefault(work, _InFlight())
            flight.users += 1
        disk = self.disk()
        start = time.monotonic()
        try:
            with flight.lock, disk.compiling(work, self._lock_timeout) if disk else nullcontext():
                entry = self._remembered(digest) or self._from_disk(digest)
                if entry is not None:
                    self._raise_if_known_to_fail(entry)
                    waited = time.monotonic() - start
                    self._note("waited", entry.name, digest, waited)
                    self.stats.add(shared=1, saved_seconds=entry.compile_seconds, wait_seconds=waited)
                elif program is not None and program != digest and (entry := self._of_program(program, name)):
                    self._raise_if_known_to_fail(entry)
                    self.same(key, entry.name, entry.compile_seconds)
                yield entry
        finally:
            with self._guard:
                flight.users -= 1
                if not flight.users:
                    self._in_flight.pop(work, None)

    def same(self, key: Key, name: str, saved_seconds: float = 0.0) -> None:
        """Notes that a miss needs no compilation: its program is that of another key, whose recipe is there."""
        self.stats.add(shared=1, saved_seconds=saved_seconds)
        self._note("same", name, key.digest, saved_seconds)

    def disk(self) -> Store | None:
        """The store in the directory that TF_RECIPE_CACHE_PATH names now, used as the settings say now."""
        path = settings.TF_RECIPE_CACHE_PATH.get()
        options = Options.from_settings()
        disk = self._disk
        if disk is not None and disk.path == path and disk.options == options:
            return disk
        if disk is not None:
            self._journal.flush(disk)
        if path is None or options.mode == "off":
            self._disk = None
        else:
            self._disk = Store(path, self.stats, options, self._note)
        return self._disk

    def close(self) -> None:
        """Writes what the journal does not have yet, and the run's counters. For the end of the process.

        A child that was forked and ends by itself has nothing to say: the counters are its parent's, and a lock that
        another thread held at the fork is never free in it.
        """
        if os.getpid() != self._process:
            return
        if self._later is not None:
            self._later.cancel()
            self._later.join(1.0)  # it may be writing
        disk = self._disk
        if disk is not None and any(self.stats.to_json().values()):
            self._journal.flush(disk, self.stats.to_json())

    def _note(self, event: str, name: str, digest: str, seconds: float = 0.0, missed: Key | None = None) -> None:
        if self._disk is None:
            return
        if self._journal.add(event, name, digest, seconds, missed):
            self._journal.flush(self._disk)
            return
        with self._guard:
            if self._later is None or not self._later.is_alive():  # not in a forked child either
                self._later = threading.Timer(journal.SECONDS, self._flush)
                self._later.daemon = True
                self._later.start()

    def _flush(self) -> None:
        disk = self._disk
        if disk is not None:
            self._journal.flush(disk)

    def _keep(
        self, key: Key, name: str, header: Mapping[str, Any], sections: Mapping[str, bytes], compile_seconds: float
    ) -> Entry:
        known = {
            "name": name,
            "digest": key.digest,
            "key": key.manifest(),
            "created": time.time(),
            "compile_seconds": compile_seconds,
        }
        entry = Entry({**header, **known}, dict(sections))
        self._remember(entry)
        disk = self.disk()
        if disk is not None:
            disk.write(entry)
        return entry

    def _raise_if_known_to_fail(self, entry: Entry) -> None:
        if entry.failure is not None:
            self.stats.add(known_failures=1)
            self._note("known failure", entry.name, entry.digest)
            raise KnownFailure(entry.failure)

    def _from_disk(self, digest: str) -> Entry | None:
        disk = self.disk()
        entry = disk.read(digest) if disk is not None else None
        if entry is None or _is_over(entry):
            return None
        self._remember(entry)
        return entry

    def _of_program(self, program: str, name: str) -> Entry | None:
        """The recipe of another key for the same program."""
        with self._guard:
            found = [entry for entry in self._memory.values() if entry.header.get("program") == program]
        if found:
            return found[-1]
        disk = self.disk()
        entry = disk.of_program(program, name) if disk is not None else None
        if entry is None or _is_over(entry):
            return None
        self._remember(entry)
        return entry

    def _remembered(self, digest: str) -> Entry | None:
        with self._guard:
            entry = self._memory.get(digest)
            if entry is None or _is_over(entry):
                return None
            self._memory.move_to_end(digest)
            return entry

    def _remember(self, entry: Entry) -> None:
        with self._guard:
            old = self._memory.pop(entry.digest, None)
            self._memory_bytes += _cost(entry) - (_cost(old) if old else 0)
            self._memory[entry.digest] = entry
            while self._memory_bytes > self._memory_limit:
                self._memory_bytes -= _cost(self._memory.popitem(last=False)[1])


def _cost(entry: Entry) -> int:
    return entry.payload_bytes if entry.failure is None else _FAILURE_BYTES


def _is_over(entry: Entry) -> bool:
    """Whether a failure is to be tried again; one from the future is, too: the clock was set back."""
    return entry.failure is not None and not 0 <= time.time() - entry.created < FAILURE_SECONDS
