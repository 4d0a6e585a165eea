"""What one rank of a job that does not exist does, and what it is told: its events, its recorder, the board of all."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch

from habana_tf.card.prediction.ranks import Collective
from habana_tf.torch.dry_run.recorder import Unrun, Unrunner
from habana_tf.torch.memory.storage import Block
from habana_tf.torch.record import scopes


@dataclass(frozen=True)
class UnrunLaunch:
    """A launch. reads, writes: addresses of the storages that it reads and of those that it writes."""

    program: Unrun
    reads: frozenset[int]
    writes: frozenset[int]


@dataclass(frozen=True)
class Step:
    """Launches and collectives between two updates by an optimizer, in order, from number `update` on those of the
    second one. alive: most bytes of tensors at once until its end."""

    events: list[UnrunLaunch | Collective]
    update: int
    alive: int


@dataclass
class Rank:
    """What one rank did. steps: those that have ended; events: since then. reads: values that the host asked for, by
    line. alive: most bytes of tensors at once."""

    number: int
    size: int
    board: Board = field(default_factory=lambda: Board())
    steps: list[Step] = field(default_factory=list)
    events: list[UnrunLaunch | Collective] = field(default_factory=list)
    reads: dict[str, int] = field(default_factory=dict)
    alive: int = 0

    def step(self, number: int) -> Step:
        """A step by its number, negative from the last; the whole program where it makes less than two."""
        if len(self.steps) > 1:
            return self.steps[number]
        events = self.whole()
        return Step(events, len(events), self.alive)

    def whole(self) -> list[UnrunLaunch | Collective]:
        """All launches and collectives."""
        return [*(event for step in self.steps for event in step.events), *self.events]


class Board:
    """What ranks told each other of the host's numbers (names, sizes, objects as bytes), in messages and broadcasts:
    by who sends to whom, in order. Ranks are run one after the other, and one that needs what another has not said yet
    is run again from its beginning (`Unsaid`)."""

    def __init__(self) -> None:
        self.said: dict[tuple[Any, ...], list[torch.Tensor]] = {}
        self._calls: Counter[tuple[Any, ...]] = Counter()

    def begin(self) -> None:
        """A rank begins."""
        self._calls.clear()

    @property
    def count(self) -> int:
        """How many messages there were."""
        return sum(map(len, self.said.values()))

    def say(self, key: tuple[Any, ...], contents: torch.Tensor) -> None:
        said, call = self.said.setdefault(key, []), self._calls[key]
        self._calls[key] += 1
        if call == len(said):
            said.append(contents.clone())

    def hear(self, key: tuple[Any, ...], of: int) -> torch.Tensor:
        """Raises Unsaid where that rank has not said it."""
        said, call = self.said.get(key, []), self._calls[key]
        self._calls[key] += 1
        if call >= len(said):
            raise Unsaid(of)
        return said[call]


class Unsaid(BaseException):
    """A rank needs what another one says. No Exception: programs catch those."""

    def __init__(self, rank: int) -> None:
        super().__init__(f"what rank {rank} says is needed")
        self.rank = rank


class Ended(BaseException):
    """The program has made as many steps as were asked for. No Exception: programs catch those."""


class RankRecorder(Unrunner):
    """Notes launches among collectives, and answers what the host reads with 0."""

    def __init__(self, rank: Rank) -> None:
        super().__init__()
        self.rank = rank

    def _run(self, found: list[tuple[tuple[int, int], Block]]) -> None:
        reads, writes = ({b.address for b in blocks} for blocks in (self.inputs.blocks, [b for _, b in found]))
        super()._run(found)
        self.rank.events.append(UnrunLaunch(self.programs_made.pop(), frozenset(reads), frozenset(writes)))

    def settle(self, t: torch.Tensor, write: bool) -> Block:
        line = scopes.line()
        self.rank.reads[line] = self.rank.reads.get(line, 0) + 1
        return self.settled(t)

    def copied(self, source: torch.Tensor, target: torch.Tensor) -> None:
        if source.device.type == "hpu" and source.is_floating_point():
            self.settle(source, False)
            target.zero_()
        else:
            super().copied(source, target)
