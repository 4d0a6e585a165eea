"""Which collectives a rank has called: those of each group are numbered, and the last ones are kept, with their lines.

Ranks of a group that have come to the same number must call the same there; who has not come so far is who the others
wait for (`stalls`).
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from habana_tf.card.prediction.ranks import Collective, differing
from habana_tf.torch.record import scopes

_KEPT = 64
"""Of a group the last collectives that are remembered."""


@dataclass
class Call:
    """A collective that this rank has called. number: of its group, from 1; 0 for a message, and for
    the making of the group. began: by the monotonic
    clock. waits: whether somebody waits for it. done: whether it is over, as far as can be asked. due: seconds after
    which `stalls` looks at it again; warned: whether it has said who is missing."""

    number: int
    what: Collective
    began: float
    waits: bool = False
    done: Callable[[], bool] = lambda: False
    due: float = 0.0
    warned: bool = False

    def follow(self, work: Any) -> None:
        """Takes what was begun: it is over when that is, or when nobody can wait for it any more. Messages do not say
        so before they are waited for."""
        held = weakref.ref(work)

        def done() -> bool:
            alive = held()
            return alive is None or not (self.number or self.waits) or bool(alive.is_completed())

        self.done = done

    def over(self) -> None:
        self.done = lambda: True

    def __str__(self) -> str:
        return f"collective {self.number}, {self.what}" if self.number else str(self.what)


@dataclass(eq=False)
class Calls:
    """Of a group. ranks: of the job, in the order of the group. backend: what does its collectives, once it is made.
    wrong: what is known never to end."""

    group: str
    ranks: tuple[int, ...]
    backend: Any = None
    last: deque[Call] = field(default_factory=lambda: deque(maxlen=_KEPT))
    messages: list[Call] = field(default_factory=list)
    count: int = 0
    wrong: str = ""

    def begin(self, kind: str, nbytes: int) -> Call:
        """Notes a collective that is about to be called."""
        self.count += 1
        made = self._made(self.count, kind, nbytes, self.ranks)
        self.last.append(made)
        return made

    def message(self, kind: str, nbytes: int, ranks: tuple[int, ...]) -> Call:
        """Notes a message between two ranks, or that the group is made."""
        made = self._made(0, kind, nbytes, ranks)
        self.messages = [call for call in self.messages if not call.done()] + [made]
        return made

    def _made(self, number: int, kind: str, nbytes: int, ranks: tuple[int, ...]) -> Call:
        line = scopes.line() or scopes.line_of_main()
        return Call(number, Collective(kind, nbytes, ranks, self.group, line=line), time.monotonic())

    def waiting(self) -> Call | None:
        """The oldest that is not over."""
        found = [call for call in (*self.messages, *self.last) if not call.done()]
        return min(found, key=lambda call: call.began, default=None)

    def told(self) -> dict[str, Any]:
        """What other ranks are told, as JSON has it."""
        calls = [(c.number, c.what.kind, c.what.nbytes, c.what.line) for c in self.last]
        return {"count": self.count, "calls": calls}

    def differing(self, rank: int, others: Mapping[int, Any]) -> str:
        """The first collective in which this rank and another one differ, in words; empty where there is none. others:
        what those say, by rank."""
        mine = {call.number: call.what for call in self.last}
        for other, state in sorted(others.items()):
            for number, kind, nbytes, line in state["groups"].get(self.group, {"calls": ()})["calls"]:
                own, theirs = mine.get(number), Collective(kind, nbytes, self.ranks, self.group, line=line)
                if own is None or own.agreed == theirs.agreed:
                    continue
                both = dict(sorted({rank: [own], other: [theirs]}.items()))
                return differing(number, self.group, self.ranks, both)
        return ""


def missing(call: Call, rank: int, states: Mapping[int, Mapping[str, Any]]) -> str:
    """Where the other ranks are while this one waits in a call, in words. states: of ranks that said theirs."""
    group, ranks = call.what.group, call.what.ranks
    said = []
    for other in ranks:
        state = states.get(other)
        if other == rank:
            continue
        if state is None:
            said.append(f"rank {other} says nothing: it has ended, is stopped, or is not there yet")
            continue
        told = state["groups"].get(group)
        at = f"; it is at {state['line'] or 'an unknown line'}"
        at += f", in {state['waits']}" if state["waits"] else ""
        if told is None:
            said.append(f"rank {other} has not made this group{at}")
        elif not call.number:
            said.append(f"rank {other}{at.removeprefix('; it')}")
        elif told["count"] >= call.number:
            said.append(f"rank {other} is there")
        elif not told["calls"]:
            said.append(f"rank {other} has called none of this group{at}")
        else:
            number, kind, nbytes, line = told["calls"][-1]
            last = Call(number, Collective(kind, nbytes, ranks, group, line=line), 0.0)
            said.append(f"rank {other} is missing: its last was {last}{at}")
    return "; ".join(said)
