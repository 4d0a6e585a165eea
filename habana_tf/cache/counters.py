"""Counts what the recipe cache did in this process.

Counters only grow. They may be read at any time from any thread; each change is one step under a lock.
"""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, replace


@dataclass(frozen=True)
class Counts:
    """Numbers of recipes unless the name says otherwise."""

    memory_hits: int = 0
    """Found in this process."""
    disk_hits: int = 0
    """Read from the disk cache."""
    misses: int = 0
    """Found nowhere when asked for."""
    shared: int = 0
    """Misses that another process compiled while this one waited for it, or that another key's recipe is for."""
    compiled: int = 0
    """Compiled by this process."""
    stored: int = 0
    """Written to the disk cache."""
    corrupt: int = 0
    """Damaged entries met and put aside."""
    refused: int = 0
    """Entries or directories not believed because others could have written them."""
    failed: int = 0
    """Clusters that turned out not to compile."""
    known_failures: int = 0
    """Times that a cluster was known not to compile, and no time was lost with it."""
    evicted: int = 0
    """Entries removed to stay below the size limit."""
    evicted_bytes: int = 0
    """Their size."""
    failures: int = 0
    """Operations given up because of an error of the file system."""
    compile_seconds: float = 0.0
    """Spent compiling."""
    saved_seconds: float = 0.0
    """What compiling the recipes taken from others or from disk took when they were made."""
    wait_seconds: float = 0.0
    """Spent waiting for other processes that compiled the same recipe."""


class Stats:
    """The counters of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = Counts()

    def add(self, **amounts: float) -> None:
        """Adds to the counters named as the fields of `Counts`."""
        with self._lock:
            now = self._counts
            self._counts = replace(now, **{name: getattr(now, name) + more for name, more in amounts.items()})

    def counts(self) -> Counts:
        """The counters at this moment."""
        return self._counts

    def to_json(self) -> dict[str, float]:
        """The counters as JSON data."""
        return asdict(self.counts())

    def report(self) -> str:
        """One line for people."""
        now = self.counts()
        cached = now.disk_hits + now.shared
        parts = [f"{now.compiled} compiled in {now.compile_seconds:.1f} s"]
        if cached:
            parts.append(f"{cached} from the cache, which saved {now.saved_seconds:.1f} s")
        if now.corrupt:
            parts.append(f"{now.corrupt} damaged and put aside")
        if now.refused:
            parts.append(f"{now.refused} refused because others could have written them")
        if now.failed or now.known_failures:
            parts.append(f"{now.failed + now.known_failures} that cannot be compiled")
        if now.evicted:
            parts.append(f"{now.evicted} evicted")
        if now.failures:
            parts.append(f"{now.failures} cache operations failed")
        return "recipes: " + ", ".join(parts)
