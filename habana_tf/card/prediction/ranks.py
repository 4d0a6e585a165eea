"""What several ranks of a job do, in order, and how long that takes together: an event simulation.

Each rank is a list of events: launches of its card, and collectives with other ranks. The host is ahead of the card: a
launch waits for the collectives whose results it reads, and for nothing else, and a collective for the launches that
made what it sends, so that communication runs beside what does not depend on it. A collective begins when all of its
ranks that are simulated have what it sends and no earlier one under way, and takes what the network takes
(`model.collective_time`). Ranks that are not simulated are taken to come at the same time.

Collectives of one group meet in the order in which each rank calls them. Two ranks that meet in different ones would
wait for each other for ever on cards: `Disagreement` says which lines of the program did so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

UNEVEN = frozenset({"gather", "scatter", "all_to_all"})
"""Kinds in which ranks may have different bytes."""


class Disagreement(ValueError):
    """Ranks whose collectives do not go together: on cards they would wait for ever."""


@dataclass(frozen=True)
class Launch:
    """A program of a card. reads, writes: numbers of tensors."""

    name: str
    seconds: float
    reads: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Collective:
    """kind: as in `collective_seconds`, with "recv" for the other side of a send. ranks: of the job, of its group; of
    a message the two. group: its name. nbytes: see there. reads, writes: numbers of the tensors that it sends and of
    those that it receives. line: of the user's program."""

    kind: str
    nbytes: int
    ranks: tuple[int, ...]
    group: str
    reads: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()
    line: str = ""

    @property
    def agreed(self) -> tuple[str, int, str, tuple[int, ...]]:
        """What all ranks of one must agree on."""
        return self.kind, 0 if self.kind in UNEVEN else self.nbytes, self.group, self.ranks

    @property
    def meets(self) -> str:
        """Kind, bytes and group, in words."""
        return f"{self.kind} of {self.nbytes:,} bytes in group {self.group or 'of all'} {_short(self.ranks)}"

    def __str__(self) -> str:
        return f"{self.meets} at {self.line or 'an unknown line'}"


Event = Launch | Collective


@dataclass(frozen=True)
class Span:
    """An event of a rank as it happened: seconds from the beginning. waited: of the time before begin, what this rank
    waited for others; blamed: for which rank."""

    rank: int
    event: Event
    begin: float
    end: float
    waited: float = 0.0
    blamed: int | None = None


@dataclass
class _Rank:
    """now: until when its card works; sends, receives: until when its ports do, which do both at once; done: when a
    tensor is written; open: tensors that a message writes which has not been sent yet."""

    number: int
    events: Sequence[Event]
    at: int = 0
    now: float = 0.0
    sends: float = 0.0
    receives: float = 0.0
    done: dict[int, float] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)

    def has(self, numbers: Iterable[int]) -> float:
        """When it has these tensors."""
        return max((self.done.get(number, 0.0) for number in numbers), default=0.0)

    def free(self, kind: str) -> float:
        """When its ports are, for this kind."""
        return {"send": self.sends, "recv": self.receives}.get(kind, max(self.sends, self.receives))


def simulated(ranks: Mapping[int, Sequence[Event]], seconds: Callable[[Collective], float]) -> list[Span]:
    """The spans of all events, by rank and begin. seconds: of a collective. Raises Disagreement."""
    check(ranks)
    return _Simulation(ranks, seconds).run()


class _Simulation:
    def __init__(self, ranks: Mapping[int, Sequence[Event]], seconds: Callable[[Collective], float]) -> None:
        self.ranks = {number: _Rank(number, events) for number, events in sorted(ranks.items())}
        self.seconds = seconds
        self.spans: list[Span] = []
        self._posted: dict[tuple[int, int, str], list[tuple[_Rank, Collective, float]]] = {}

    def run(self) -> list[Span]:
        while waiting := [rank for rank in self.ranks.values() if rank.at < len(rank.events)]:
            if not sum(self._advance(rank) for rank in waiting):
                raise Disagreement(self._stuck(waiting))
        if any(self._posted.values()):
            raise Disagreement(self._stuck([]))
        return sorted(self.spans, key=lambda span: (span.rank, span.begin, span.end))

    def _advance(self, rank: _Rank) -> bool:
        """Goes on with a rank as far as it can; whether it could."""
        first = rank.at
        while rank.at < len(rank.events):
            event = rank.events[rank.at]
            if isinstance(event, Launch):
                if event.reads & rank.open:
                    break
                self._launch(rank, event)
            elif event.reads & rank.open:
                break
            elif event.kind in ("send", "recv"):
                self._message(rank, event)
            elif not self._collective(event):
                break
        return rank.at > first

    def _launch(self, rank: _Rank, event: Launch) -> None:
        begin = max(rank.now, rank.has(event.reads))
        self.spans.append(Span(rank.number, event, begin, begin + event.seconds, begin - rank.now))
        rank.now = begin + event.seconds
        rank.done.update(dict.fromkeys(event.writes, rank.now))
        rank.at += 1

    def _message(self, rank: _Rank, event: Collective) -> None:
        """Sends and receives are posted, as between `isend` and `wait`; they meet in the order of their two ranks."""
        rank.at += 1
        sender, receiver = event.ranks
        other = self.ranks.get(receiver if rank.number == sender else sender)
        if other is None:
            self._met([(rank, event, rank.has(event.reads))])
            return
        rank.open |= event.writes
        key = (sender, receiver, event.group)
        queue = self._posted.setdefault(key, [])
        if queue and queue[0][0] is other:
            self._met([queue.pop(0), (rank, event, rank.has(event.reads))])
        else:
            queue.append((rank, event, rank.has(event.reads)))

    def _collective(self, event: Collective) -> bool:
        """Begins where all of its ranks have come to it."""
        members = [self.ranks[number] for number in event.ranks if number in self.ranks]
        there = []
        for rank in members:
            mine = rank.events[rank.at] if rank.at < len(rank.events) else None
            if not isinstance(mine, Collective) or (mine.kind, mine.group, mine.ranks) != (
                event.kind,
                event.group,
                event.ranks,
            ):
                return False
            if mine.reads & rank.open:
                return False
            there.append((rank, mine, rank.has(mine.reads)))
        self._met(there)
        for rank in members:
            rank.at += 1
        return True

    def _met(self, there: Sequence[tuple[_Rank, Collective, float]]) -> None:
        there = [(rank, mine, max(ready, rank.free(mine.kind))) for rank, mine, ready in there]
        begin = max(ready for _, _, ready in there)
        last = max(there, key=lambda each: each[2])[0].number
        end = begin + self.seconds(max((mine for _, mine, _ in there), key=lambda each: each.nbytes))
        for rank, mine, ready in there:
            self.spans.append(Span(rank.number, mine, begin, end, begin - ready, last if ready < begin else None))
            rank.sends = end if mine.kind != "recv" else rank.sends
            rank.receives = end if mine.kind != "send" else rank.receives
            rank.open -= mine.writes
            rank.done.update(dict.fromkeys(mine.writes, end))

    def _stuck(self, waiting: Sequence[_Rank]) -> str:
        said = [
            f"rank {rank.number} in {event}"
            for queue in self._posted.values() for rank, event, _ in queue
        ]  # fmt: skip
        for rank in waiting:
            event = rank.events[rank.at]
            if isinstance(event, Collective):
                said.append(f"rank {rank.number} in {event}")
        return f"ranks wait for each other for ever: {'; '.join(said)}"


def check(ranks: Mapping[int, Sequence[Event]]) -> None:
    """Compares the collectives of each group, call by call, over the ranks that are there. Raises Disagreement for the
    first that differ in kind, size or group."""
    groups: dict[tuple[str, tuple[int, ...]], dict[int, list[Collective]]] = {}
    for rank, events in ranks.items():
        for event in events:
            if isinstance(event, Collective) and event.kind not in ("send", "recv"):
                groups.setdefault((event.group, event.ranks), {}).setdefault(rank, []).append(event)
    for (group, members), calls in groups.items():
        there = [rank for rank in members if rank in ranks]
        for number in range(max(map(len, calls.values()))):
            met = {rank: calls.get(rank, [])[number : number + 1] for rank in there}
            first, *rest = there
            for other in rest:
                a, b = met[first], met[other]
                if a and b and a[0].agreed == b[0].agreed:
                    continue
                raise Disagreement(differing(number + 1, group, members, {first: a, other: b}))


def differing(number: int, group: str, ranks: Sequence[int], found: Mapping[int, Sequence[Collective]]) -> str:
    """What two ranks call in one place, in words. number: of the collective in its group, from 1; found: by rank the
    collective, nothing where it makes no more."""
    said = ", ".join(f"rank {rank} {_call(each)}" for rank, each in found.items())
    return (
        f"collective {number} of group {group or 'of all'} {_short(ranks)} differs: {said}. On cards both would wait "
        "for ever: let all ranks of the group make the same collectives in the same order"
    )


def _call(found: Sequence[Collective]) -> str:
    if not found:
        return "makes no more"
    return f"calls {found[0].kind} of {found[0].nbytes:,} bytes at {found[0].line or 'an unknown line'}"


def _short(ranks: Sequence[int]) -> str:
    """Ranks as people write them: 0..7, or some of them."""
    if len(ranks) > 2 and list(ranks) == list(range(ranks[0], ranks[-1] + 1)):
        return f"({ranks[0]}..{ranks[-1]})"
    return f"({', '.join(map(str, ranks[:8]))}{', ..' if len(ranks) > 8 else ''})"
