"""Summarizes a cache directory's journal: what past runs found, and why they missed.

Paths and errors as in `directory`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from habana_tf.cache import journal
from habana_tf.cache.counters import Counts, Stats
from habana_tf.cache.entry_head import EntryError
from habana_tf.cache.journal import Event
from habana_tf.cache.key import Difference, diff
from habana_tf.cache.listing import Listed
from habana_tf.cache.reader import Reader


@dataclass(frozen=True)
class Run:
    """One process that used the cache.

    counts: its counters; of a process that has not ended, or was killed before it wrote them (`ended`), what its events
    tell.
    """

    run: str
    events: tuple[Event, ...]
    counts: Counts
    ended: bool

    @property
    def began(self) -> float:
        """Time of its first event, in seconds since the epoch."""
        return self.events[0].time

    def count(self, event: str) -> int:
        """How many events of a kind (`journal.EVENTS`) it wrote."""
        return sum(each.event == event for each in self.events)


@dataclass(frozen=True)
class Miss:
    """A recipe that was not found. nearest: the name of the entry that was most like it, or None when nothing was.

    differences: the parts of the key that differ, `left` of what was asked for, `right` of the nearest; both are None
    when one of the two entries is not in the directory any more. cause: where the key was not the reason, what was.
    """

    event: Event
    nearest: str | None
    differences: tuple[Difference, ...]
    cause: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON data."""
        return {**asdict(self), "differences": [each.to_json() for each in self.differences]}

    def __str__(self) -> str:
        if self.cause is not None:
            return f"{self.event.name}: {self.cause}"
        if self.event.nearest is None:
            return f"{self.event.name}: nothing like it was in the cache"
        parts = ", ".join(each.name for each in self.differences)
        of = f" ({self.nearest})" if self.nearest not in (None, self.event.name) else ""
        return f"{self.event.name}: differs from the nearest recipe{of} in {parts}"


def events(path: str | None = None) -> list[Event]:
    """Every event in the journal, oldest first."""
    return journal.read(Reader.of(path))


def runs(path: str | None = None) -> list[Run]:
    """The processes that used the cache, in the order in which they began."""
    grouped: dict[str, list[Event]] = {}
    for event in events(path):
        grouped.setdefault(event.run, []).append(event)
    return [Run(run, tuple(written), *_counts(written)) for run, written in grouped.items()]


def totals(path: str | None = None) -> Counts:
    """The counters of all runs in the journal together."""
    counted = [run.counts for run in runs(path)]
    return Counts(**{f.name: sum(getattr(counts, f.name) for counts in counted) for f in fields(Counts)})


def misses(path: str | None = None, run: str | None = None) -> list[Miss]:
    """What a run missed and why; what another key's recipe was there for is none. run: None is the last run that missed
    anything."""
    reader = Reader.of(path)
    written = journal.read(reader)
    needless = {(event.run, event.digest) for event in written if event.event == "same"}
    missed = [(event, cause) for event, cause in _missed(written) if (event.run, event.digest) not in needless]
    if not missed:
        return []
    wanted = run or missed[-1][0].run
    listed = {str(row.header["digest"]): row for row in reader.listing() if row.header is not None}
    return [_miss(event, listed, cause) for event, cause in missed if event.run == wanted]


def explain(left: Listed, right: Listed) -> list[Difference]:
    """The parts of the key in which two entries differ. Raises EntryError for one that cannot be used."""
    if left.header is None or right.header is None:
        raise EntryError(left.problem or right.problem or "no entry")
    return diff(left.header.key, right.header.key)


_IN_THIS_RUN = {
    "corrupt": "its recipe was damaged",
    "refused": "its recipe, or the directory, is not believed (see `habana-tf check`)",
    "renewed": "it is there, but HABANA_SIM_CACHE_MODE=refresh makes recipes anew",
}
_GONE = "it had been there and was gone: evicted, removed or never written"
_EARLIER = {
    "failed": "it could not be compiled before and was tried again", "compiled": _GONE, "hit": _GONE, "waited": _GONE,
}  # fmt: skip


def _missed(written: list[Event]) -> Iterator[tuple[Event, str | None]]:
    """The misses, and what made each where its key was known before."""
    here: dict[tuple[str, str], str] = {}
    earlier: dict[str, str] = {}
    for event in written:
        if event.event == "miss":
            yield event, here.get((event.run, event.digest)) or earlier.get(event.digest)
        elif event.event in _IN_THIS_RUN:
            here[event.run, event.digest] = _IN_THIS_RUN[event.event]
        elif event.event in _EARLIER:
            earlier[event.digest] = _EARLIER[event.event]


def _miss(event: Event, listed: Mapping[str, Listed], cause: str | None) -> Miss:
    if cause is not None:
        return Miss(event, None, (), cause)
    ours, theirs = listed.get(event.digest), listed.get(event.nearest or "")
    name = str(theirs.header["name"]) if theirs is not None and theirs.header is not None else None
    if ours is not None and theirs is not None:
        return Miss(event, name, tuple(explain(ours, theirs)))
    return Miss(event, name, tuple(Difference(part, None, None) for part in event.differs))


_COUNTED = {
    "hit": ("disk_hits", "saved_seconds"),
    "miss": ("misses", None),
    "compiled": ("compiled", "compile_seconds"),
    "waited": ("shared", "wait_seconds"),
    "same": ("shared", "saved_seconds"),
    "failed": ("failed", "compile_seconds"),
    "known failure": ("known_failures", None),
    "corrupt": ("corrupt", None),
    "refused": ("refused", None),
}
"""The counters that an event adds one and its seconds to."""


def _counts(written: list[Event]) -> tuple[Counts, bool]:
    """A run's counters and whether it has ended."""
    known = {f.name for f in fields(Counts)}
    ends = [event.counts for event in written if event.event == "end"]
    if ends:
        numbers: dict[str, Any] = {name: value for name, value in ends[-1].items() if name in known}
        return Counts(**numbers), True
    stats = Stats()
    for event in written:
        number, seconds = _COUNTED.get(event.event, (None, None))
        if number is not None:
            stats.add(**{number: 1})
        if seconds is not None:
            stats.add(**{seconds: event.seconds})
    return stats.counts(), False
