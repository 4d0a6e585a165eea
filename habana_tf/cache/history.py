"""What the runs of the past found in a cache directory, and why they missed; from its journal.

Paths and errors as in `directory`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from habana_tf.cache import journal
from habana_tf.cache.counters import Counts
from habana_tf.cache.entry import EntryError
from habana_tf.cache.journal import Event
from habana_tf.cache.key import Difference, diff
from habana_tf.cache.listing import Listed
from habana_tf.cache.reader import Reader


@dataclass(frozen=True)
class Run:
    """One process that used the cache. counts: its counters, or None when it was killed before it wrote them."""

    run: str
    events: tuple[Event, ...]
    counts: Counts | None

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
    when one of the two entries is not in the directory any more.
    """

    event: Event
    nearest: str | None
    differences: tuple[Difference, ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON data."""
        return {**asdict(self), "differences": [each.to_json() for each in self.differences]}

    def __str__(self) -> str:
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
    return [Run(run, tuple(written), _counts(written)) for run, written in grouped.items()]


def totals(path: str | None = None) -> Counts:
    """The counters of all runs in the journal together."""
    counted = [run.counts for run in runs(path) if run.counts is not None]
    return Counts(**{f.name: sum(getattr(counts, f.name) for counts in counted) for f in fields(Counts)})


def misses(path: str | None = None, run: str | None = None) -> list[Miss]:
    """What a run missed and why. run: None is the last run that missed anything."""
    reader = Reader.of(path)
    missed = [event for event in journal.read(reader) if event.event == "miss"]
    if not missed:
        return []
    wanted = run or missed[-1].run
    listed = {str(row.header["digest"]): row for row in reader.listing() if row.header is not None}
    return [_miss(event, listed) for event in missed if event.run == wanted]


def explain(left: Listed, right: Listed) -> list[Difference]:
    """The parts of the key in which two entries differ. Raises EntryError for one that cannot be used."""
    if left.header is None or right.header is None:
        raise EntryError(left.problem or right.problem or "no entry")
    return diff(left.header.key, right.header.key)


def _miss(event: Event, listed: Mapping[str, Listed]) -> Miss:
    ours, theirs = listed.get(event.digest), listed.get(event.nearest or "")
    name = str(theirs.header["name"]) if theirs is not None and theirs.header is not None else None
    if ours is not None and theirs is not None:
        return Miss(event, name, tuple(explain(ours, theirs)))
    return Miss(event, name, tuple(Difference(part, None, None) for part in event.differs))


def _counts(written: list[Event]) -> Counts | None:
    ends = [event.counts for event in written if event.event == "end"]
    if not ends:
        return None
    known = {f.name for f in fields(Counts)}
    numbers: dict[str, Any] = {name: value for name, value in ends[-1].items() if name in known}
    return Counts(**numbers)
