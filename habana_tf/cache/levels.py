"""The two levels of the recipe cache, memory before disk, and one compilation per key.

The memory level keeps entries of this process up to a bound, least recently used out first. The disk level is the
directory that TF_RECIPE_CACHE_PATH names at the moment of the call; unset, there is none.

Invariants: one thread of one process compiles a key while all others who ask wait for it (within the process
always, between processes up to a timeout); nothing is logged and no file is touched under the memory level's lock.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from habana_tf import settings
from habana_tf.cache.entry import Entry
from habana_tf.cache.key import Key
from habana_tf.cache.stats import Stats
from habana_tf.cache.store import Store

MEMORY_BYTES = 64 << 20
LOCK_TIMEOUT = 60.0


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

    def lookup(self, key: Key) -> Entry | None:
        """The entry of `key` from memory or disk, or None. Counts a hit or a miss."""
        entry = self._remembered(key.digest)
        if entry is not None:
            self.stats.add(memory_hits=1)
            return entry
        entry = self._from_disk(key.digest)
        if entry is None:
            self.stats.add(misses=1)
        else:
            self.stats.add(disk_hits=1, saved_seconds=entry.compile_seconds)
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
        known = {
            "name": name,
            "digest": key.digest,
            "key": key.manifest(),
            "created": time.time(),
            "compile_seconds": compile_seconds,
        }
        entry = Entry({**header, **known}, dict(sections))
        self.stats.add(compiled=1, compile_seconds=compile_seconds)
        self._remember(entry)
        disk = self.disk()
        if disk is not None:
            disk.write(entry)
        return entry

    @contextmanager
    def compiling(self, key: Key) -> Iterator[Entry | None]:
        """Held around a compilation after a miss.

        Yields the entry if somebody else compiled it in the meantime, and None to the one who has to.
        """
        digest = key.digest
        with self._guard:
            flight = self._in_flight.setdefault(digest, _InFlight())
            flight.users += 1
        disk = self.disk()
        start = time.monotonic()
        try:
            with flight.lock, disk.compiling(digest, self._lock_timeout) if disk else nullcontext():
                entry = self._remembered(digest) or self._from_disk(digest)
                if entry is not None:
                    waited = time.monotonic() - start
                    self.stats.add(shared=1, saved_seconds=entry.compile_seconds, wait_seconds=waited)
                yield entry
        finally:
            with self._guard:
                flight.users -= 1
                if not flight.users:
                    self._in_flight.pop(digest, None)

    def disk(self) -> Store | None:
        """The store in the directory that TF_RECIPE_CACHE_PATH names now."""
        path = settings.TF_RECIPE_CACHE_PATH.get()
        disk = self._disk
        if path is None:
            return None
        if disk is None or disk.path != path:
            disk = self._disk = Store(path, self.stats)
        return disk

    def _from_disk(self, digest: str) -> Entry | None:
        disk = self.disk()
        entry = disk.read(digest) if disk is not None else None
        if entry is not None:
            self._remember(entry)
        return entry

    def _remembered(self, digest: str) -> Entry | None:
        with self._guard:
            if digest in self._memory:
                self._memory.move_to_end(digest)
            return self._memory.get(digest)

    def _remember(self, entry: Entry) -> None:
        with self._guard:
            old = self._memory.pop(entry.digest, None)
            self._memory_bytes += entry.payload_bytes - (old.payload_bytes if old else 0)
            self._memory[entry.digest] = entry
            while self._memory_bytes > self._memory_limit:
                self._memory_bytes -= self._memory.popitem(last=False)[1].payload_bytes
