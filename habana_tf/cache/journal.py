"""The journal of a cache directory, one line per event: `<root>/v4/journal.jsonl`.

One line of JSON per event:
    t  when, seconds since the epoch          e  what (`EVENTS`)
    r  run: host, process and start           n  the cluster's name, k its key's SHA-256
    s  seconds: of the compilation (hit: saved), or of waiting
    near, d  of a miss: the key of the nearest entry that was there, and the parts in which it differs
    c  of the end of a run: its counters (`counters.Counts`)

Events are collected in memory and appended in one write: every `BATCH` events, `SECONDS` after the first that waits,
and at exit; a process that is killed loses those of its last seconds. Past `MOST_BYTES` the file becomes
`journal.1.jsonl`, so two such files are the most there is.

Invariants: never an error, and nothing is written in mode ro; a line torn by a crash or a full disk is skipped by
readers and spoils no other (each batch begins on a new line); of a file that is longer than this package makes it,
however long, readers take the end, in pieces.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from habana_tf.cache import files
from habana_tf.cache.entry_head import LAST
from habana_tf.cache.key import Key, understood
from habana_tf.cache.nearest import Candidate, candidates, nearest
from habana_tf.cache.reader import Reader
from habana_tf.files import trust

if TYPE_CHECKING:
    from habana_tf.cache.disk import Store

EVENTS = (
    "hit", "miss", "compiled", "waited", "same", "failed", "known failure", "corrupt", "refused", "renewed", "evicted",
    "end",
)  # fmt: skip
"""same: a miss whose program another key's recipe is for. renewed: an entry left unused in mode refresh."""
BATCH = 64
SECONDS = 5.0
MOST_BYTES = 1 << 20
NAMES = ("journal.1.jsonl", "journal.jsonl")
"""The older and the current file."""
_MOST_PENDING = 4096
_MOST_READ_BYTES = 4 * MOST_BYTES
"""Of one file: the most there is, and what a batch of the longest wait adds to it."""
_MOST_LINE_BYTES = 1 << 16
_PIECE = 1 << 16
_MOST_READ = 1000
"""Entries that one flush reads to find the nearest; each takes about 0.1 ms."""


@dataclass(frozen=True)
class Event:
    """One line of the journal; see there."""

    time: float
    run: str
    event: str
    name: str = ""
    digest: str = ""
    seconds: float = 0.0
    nearest: str | None = None
    differs: tuple[str, ...] = ()
    counts: Mapping[str, float] = field(default_factory=dict)

    def line(self) -> bytes:
        """The line, without its end."""
        data: dict[str, Any] = {"t": round(self.time, 3), "r": self.run, "e": self.event}
        optional = {
            "n": self.name, "k": self.digest, "s": round(self.seconds, 6), "near": self.nearest, "d": self.differs,
            "c": dict(self.counts),
        }  # fmt: skip
        data.update({name: value for name, value in optional.items() if value})
        return json.dumps(data, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, line: bytes) -> Event:
        """The event of a line. Raises ValueError when it is none."""
        try:
            data = understood(line)
            near, counts = data.get("near"), data.get("c", {})
            if not isinstance(near, str | None) or not all(isinstance(n, int | float) for n in counts.values()):
                raise TypeError("a field of another type")
            when = float(data["t"])
            if not 0 <= when < LAST:
                raise TypeError("no time")
            return cls(
                when, str(data["r"]), str(data["e"]), str(data.get("n", "")), str(data.get("k", "")),
                float(data.get("s", 0)), near, tuple(map(str, data.get("d", ()))), counts,
            )  # fmt: skip
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"no event: {error!r}") from error


class Journal:
    """The events of this process that are not on disk yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, Candidate] = {}
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._run = f"{os.uname().nodename}-{self._process}-{int(time.time() * 1000):x}"
        self._pending: list[tuple[Event, Key | None]] = []

    def add(
        self, event: str, name: str = "", digest: str = "", seconds: float = 0.0, missed: Key | None = None
    ) -> bool:
        """Notes an event; whether so many wait that `flush` is due. missed: of a miss its key."""
        with self._lock:
            if self._process != os.getpid():
                self._begin()  # a forked child has a run of its own
            self._pending.append((Event(time.time(), self._run, event, name, digest, seconds), missed))
            del self._pending[:-_MOST_PENDING]
            return len(self._pending) >= BATCH

    def flush(self, store: Store, end: Mapping[str, float] | None = None) -> None:
        """Appends what is pending, and with `end` the run's counters, to the store's journal."""
        with self._lock:
            if self._process != os.getpid():
                self._begin()
            pending, self._pending = self._pending, []
        if end is not None:
            pending.append((Event(time.time(), self._run, "end", counts=end), None))
        if not pending or not store.options.writable:
            return
        with suppress(OSError, trust.Refused):
            missing = {event.name for event, missed in pending if missed}
            there = self._candidates(store, missing) if missing else {}
            events = [_explained(event, missed, there) if missed else event for event, missed in pending]
            _append(store, b"\n" + b"".join(event.line() + b"\n" for event in events))

    def _candidates(self, store: Store, names: set[str]) -> dict[str, Candidate]:
        """Keys in the directory; a file is read once, and those of the clusters `names` first."""
        with store.version(create=True) as version:
            found = {c.digest: c for c in candidates(version, store.policy, self._known, names, _MOST_READ)}
        self._known = found
        return found


def read(reader: Reader) -> list[Event]:
    """The events in a directory's journal, oldest first. Raises OSError or trust.Refused; a missing one is empty."""
    events: list[Event] = []
    with suppress(FileNotFoundError), reader.version(create=False) as version:
        for name in NAMES:
            with suppress(FileNotFoundError), trust.regular_file(name, version, policy=reader.policy) as file:
                for line in _last_lines(file):
                    with suppress(ValueError):
                        events.append(Event.parse(line))
    return sorted(events, key=lambda event: event.time)


def _last_lines(file: int) -> Iterator[bytes]:
    """The lines of a file's last `_MOST_READ_BYTES`; of one that is longer than any event is, only its end."""
    size = os.fstat(file).st_size
    at = max(size - _MOST_READ_BYTES, 0)
    if at:
        import logging

        logging.getLogger(__name__).warning(
            "recipe cache: the journal has %d bytes, and its last %d are read", size, _MOST_READ_BYTES
        )
    rest = b""
    while at < size and (piece := os.pread(file, min(_PIECE, size - at), at)):
        at += len(piece)
        *lines, rest = (rest + piece).split(b"\n")
        rest = rest[-_MOST_LINE_BYTES:]
        yield from lines
    yield rest


def _explained(event: Event, missed: Key, there: Mapping[str, Candidate]) -> Event:
    found = nearest(missed, [c for c in there.values() if c.created < event.time and c.digest != event.digest])
    if found is None:
        return event
    differs = tuple(found.differs(missed))
    return Event(event.time, event.run, event.event, event.name, event.digest, event.seconds, found.digest, differs)


def _append(store: Store, data: bytes) -> None:
    from habana_tf.cache.disk import ROTATING

    older, current = NAMES
    with store.version(create=True) as version:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        with trust.regular_file(current, version, flags, store.policy) as file:
            files.write_all(file, data)
            full = os.fstat(file).st_size > MOST_BYTES
        if full:
            with store.alone(ROTATING) as mine:
                # Looked at again under the lock: another process may have rotated it already.
                if mine and os.stat(current, dir_fd=version, follow_symlinks=False).st_size > MOST_BYTES:
                    os.rename(current, older, src_dir_fd=version, dst_dir_fd=version)
