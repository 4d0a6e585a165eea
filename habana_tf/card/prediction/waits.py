"""For what, and for whom, the cards of a simulated job wait.

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
