"""The recipe cache of a process: the directory as the settings say now, and one compilation per key between processes.

The directory is the one that TF_RECIPE_CACHE_PATH names at the moment of the call; unset, or with
HABANA_SIM_CACHE_MODE=off, there is none, and nothing is found. Recipes in memory are `resolver.recipes`' alone.

A cluster that cannot be compiled is kept like a recipe, with the reason and for an hour: its launches are interpreted,
and finding out again would cost every process the same time. Only the compiler's own answer that it does not fit is
kept so; an interruption, a time-out or lack of memory says nothing about the cluster.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from habana_tf import settings
from habana_tf.cache import journal
from habana_tf.cache.counters import Stats
from habana_tf.cache.disk import Store
from habana_tf.cache.entry import Entry
from habana_tf.cache.key import Key
from habana_tf.cache.reader import Options

LOCK_TIMEOUT = 60.0
FAILURE_SECONDS = 3600.0
"""How long a failed compilation is remembered."""


class KnownFailure(Exception):
    """This key was tried and cannot be compiled. reason: the compiler's, as it was."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RecipeCache:
    """The recipe cache of one process."""

    def __init__(self, lock_timeout: float = LOCK_TIMEOUT) -> None:
        self.stats = Stats()
        self._lock_timeout = lock_timeout
        self._guard = threading.Lock()
        self._disk: Store | None = None
        self._journal = journal.Journal()
        self._later: threading.Timer | None = None
        self._process = os.getpid()

    def lookup(self, key: Key, name: str = "") -> Entry | None:
        """The recipe of `key` in the directory, verified; None when it has to be compiled. Counts a hit or a miss.

        name: the cluster's, for the journal. Raises KnownFailure when it was tried lately and cannot be compiled.
        """
        entry = self._from_disk(key.digest)
        if entry is None:
            self.stats.add(misses=1)
            self._note("miss", name, key.digest, missed=key)
            return None
        self._raise_if_known_to_fail(entry)
        self.stats.add(disk_hits=1, saved_seconds=entry.compile_seconds)
        self._note("hit", entry.name, entry.digest, entry.compile_seconds)
        return entry

    def store(
        self, key: Key, name: str, header: Mapping[str, Any], sections: Mapping[str, bytes], compile_seconds: float
    ) -> Entry:
        """Counts a recipe that was just compiled, keeps it in the directory if there is one, and returns its entry.

        `header` is JSON data as described in `entry`; trouble with the disk is a warning and never raised.
        """
        self.stats.add(compiled=1, compile_seconds=compile_seconds)
        self._note("compiled", name, key.digest, compile_seconds)
        return self._keep(key, name, header, sections, compile_seconds)

    def store_failure(
        self, key: Key, name: str, header: Mapping[str, Any], reason: str, compile_seconds: float
    ) -> Entry:
        """Keeps, for `FAILURE_SECONDS`, that a cluster cannot be compiled: only for what would fail again. reason: why,
        for people."""
        self.stats.add(failed=1, compile_seconds=compile_seconds)
        self._note("failed", name, key.digest, compile_seconds)
        return self._keep(key, name, {**header, "failure": reason}, {}, compile_seconds)

    @contextmanager
    def compiling(self, key: Key, program: str | None = None, name: str = "") -> Iterator[Entry | None]:
        """Held around a compilation after a miss.

        program: the digest of what is compiled, which other keys of the cluster `name` may come to as well; the header
        of its recipe has it as `program`. Yields the entry if another process compiled it, in the meantime or for such
        a key, and None where the caller has to. Raises KnownFailure if another process found that it cannot be.
        """
        digest = key.digest
        disk = self.disk()
        start = time.monotonic()
        with disk.compiling(program or digest, self._lock_timeout) if disk else nullcontext():
            entry = self._from_disk(digest)
            if entry is not None:
                self._raise_if_known_to_fail(entry)
                waited = time.monotonic() - start
                self._note("waited", entry.name, digest, waited)
                self.stats.add(shared=1, saved_seconds=entry.compile_seconds, wait_seconds=waited)
            elif program is not None and program != digest and (entry := self._of_program(program, name)):
                self._raise_if_known_to_fail(entry)
                self.same(key, entry.name, entry.compile_seconds)
            yield entry

    def same(self, key: Key, name: str, saved_seconds: float = 0.0) -> None:
        """Notes that a miss needs no compilation: its program is that of another key, whose recipe is there."""
        self.stats.add(shared=1, saved_seconds=saved_seconds)
        self._note("same", name, key.digest, saved_seconds)

    def keeps(self) -> bool:
        """Whether there is a directory that recipes are kept in."""
        disk = self.disk()
        return disk is not None and disk.options.writable

    def has(self, name: str) -> bool:
        """Whether the directory has recipes of a cluster by its name, whatever shapes they are for."""
        disk = self.disk()
        return disk is not None and disk.has(name)

    def is_warm(self) -> bool:
        """Whether the directory may well have what a network needs that is not known yet: it had something of what was
        asked of it so far, or nothing was and it has something."""
        counts, disk = self.stats.counts(), self.disk()
        return disk is not None and (counts.disk_hits > 0 or (counts.misses == 0 and not disk.is_empty()))

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
        return None if entry is None or _is_over(entry) else entry

    def _of_program(self, program: str, name: str) -> Entry | None:
        """The recipe of another key for the same program."""
        disk = self.disk()
        entry = disk.of_program(program, name) if disk is not None else None
        return None if entry is None or _is_over(entry) else entry


def _is_over(entry: Entry) -> bool:
    """Whether a failure is to be tried again; one from the future is, too: the clock was set back."""
    return entry.failure is not None and not 0 <= time.time() - entry.created < FAILURE_SECONDS
