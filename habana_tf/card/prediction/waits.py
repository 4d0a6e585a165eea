"""How long the ranks of a simulated job work, and for what, and for whom, their cards wait.

A launch that waits is told apart by the collective that it waited for: until that begins, for the rank that came to it
last; from then on, for the network.

    rank 0   launch |  for rank 1   |  for the network  | launch
    rank 1   launch    launch       |     all_reduce    | launch
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from habana_tf.card.prediction.ranks import Collective, Launch, Span


@dataclass(frozen=True)
class Wait:
    """A time in which a rank's card has nothing to do, in seconds from the beginning. other: the rank that it waits
    for, None for the network."""

    rank: int
    begin: float
    end: float
    event: Collective
    other: int | None

    @property
    def seconds(self) -> float:
        return self.end - self.begin

    def __str__(self) -> str:
        return f"{'the network' if self.other is None else f'rank {self.other}'}: {self.event}"


def waits(spans: Sequence[Span]) -> list[Wait]:
    """Of all cards, by rank and begin. spans: as `simulated` gives them."""
    over = {(span.rank, span.end): span for span in spans if isinstance(span.event, Collective) and span.event.writes}
    found = []
    for span in spans:
        cause = over.get((span.rank, span.begin))
        if not isinstance(span.event, Launch) or not span.waited or cause is None:
            continue
        assert isinstance(cause.event, Collective)
        since = span.begin - span.waited
        came = min(max(since, cause.begin), span.begin)
        if cause.blamed is not None and came > since:
            found.append(Wait(span.rank, since, came, cause.event, cause.blamed))
            since = came
        if span.begin > since:
            found.append(Wait(span.rank, since, span.begin, cause.event, None))
    return found


@dataclass(frozen=True)
class RankTime:
    """One rank's step, in seconds: launches of its card; its collectives; of those, what it waited for because a launch
    needed them; and what it waited for other ranks. memory: most bytes of tensors at once. reads: values that the host
    asked for in the whole program, by line."""

    rank: int
    launches: float
    network: float
    exposed: float
    waiting: float
    memory: int
    reads: dict[str, int]


def rank_time(number: int, spans: Sequence[Span], memory: int, reads: dict[str, int]) -> RankTime:
    """Of what a rank did; the rest as RankTime has it."""
    own = [span for span in spans if span.rank == number]
    launches = [span for span in own if isinstance(span.event, Launch)]
    others = [span for span in own if isinstance(span.event, Collective)]
    return RankTime(
        number, sum(s.end - s.begin for s in launches), sum(s.end - s.begin for s in others),
        sum(s.waited for s in launches), sum(s.waited for s in others if s.blamed is not None), memory, reads,
    )  # fmt: skip
