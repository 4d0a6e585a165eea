"""Says who is missing where ranks wait long for each other, and whose collectives do not go together.

A thread of each process looks every second what its groups wait for. Where that is older than a moment, it asks all
ranks where they are, through the store in which they met; all answer it with the collectives that they called last, and
with the line of the program that they are at. Two ranks that called something else at the same place are an error in
both; of one that does not come, to a collective or to make the group, HABANA_SIM_STALL_SECONDS warns.

Ranks that wait for each other in opposite orders, or for messages, are told apart by nobody but the reader: the warning
has the place of each.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import logging
import threading
import time
import weakref
from dataclasses import dataclass
from typing import Any

from habana_tf.settings import HABANA_SIM_STALL_SECONDS
from habana_tf.torch.distributed.calls import Call, Calls, missing
from habana_tf.torch.record import scopes

_log = logging.getLogger("habana_tf")
_TICK = 1.0
"""Seconds between two looks."""
_MOMENT = 2.0
"""Seconds after which a rank asks where the others are; then again each time that it has waited twice as long."""
_ASKED, _STATE = "habana_tf/asked", "habana_tf/at/{}"


class NeverEnds(RuntimeError):
    """Ranks of a group have called what does not go together."""


class Watch:
    """What this process knows of its groups, and of the other ranks. store: of the job; rank: of this process."""

    def __init__(self, store: Any, rank: int, limit: float) -> None:
        while hasattr(store, "underlying_store"):  # in which each group has names of its own
            store = store.underlying_store
        self._store, self._rank, self._limit = store.clone(), rank, limit
        self._tick = min(_TICK, limit / 4)
        self._groups: weakref.WeakSet[Calls] = weakref.WeakSet()
        self._answered = self._own = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hccl stalls", daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    def add(self, calls: Calls) -> None:
        self._groups.add(calls)

    def stop(self) -> None:
        """Ends the thread: Python must not end while it is in the store."""
        self._stop.set()
        self._thread.join(2 * _TICK)
        atexit.unregister(self.stop)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        with contextlib.suppress(RuntimeError):  # the store is gone, with the rank that has it
            while not self._stop.wait(self._tick):
                if not self._groups:
                    return
                self._answer()
                for calls in list(self._groups):
                    self._look(calls)

    def _answer(self) -> None:
        """Says where this rank is, if somebody has asked since."""
        asked = self._store.add(_ASKED, 0)
        if asked != self._answered:
            self._say(asked)

    def _say(self, asked: int) -> None:
        self._answered = asked
        groups = {calls.group: calls.told() for calls in self._groups}
        waits = [call for calls in self._groups if (call := calls.waiting()) is not None]
        oldest = min(waits, key=lambda call: call.began, default=None)
        state = {"asked": asked, "groups": groups, "line": scopes.line_of_main(), "waits": str(oldest or "")}
        self._store.set(_STATE.format(self._rank), json.dumps(state))

    def _look(self, calls: Calls) -> None:
        call = calls.waiting()
        if call is None or calls.wrong:
            return
        age = time.monotonic() - call.began
        call.due = call.due or min(_MOMENT, self._limit / 2)
        if age < call.due:
            return
        call.due = 2 * call.due if call.due >= self._limit else min(2 * call.due, self._limit)
        states = self._ask(calls)
        wrong = calls.differing(self._rank, states)
        if wrong:
            calls.wrong = wrong
            # Else the process waits at its end for what will not: gloo's destructor does, and has no way to give up.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(calls.backend))
            _log.error("these ranks would wait for ever: %s", wrong)
        elif age >= self._limit and not call.warned and not call.done():
            call.warned = True
            told = missing(call, self._rank, states)
            _log.warning("rank %d has waited %.0f s in %s: %s", self._rank, age, call, told)

    def _ask(self, calls: Calls) -> dict[int, dict[str, Any]]:
        """What the ranks of a group say, of those that say something within two looks."""
        asked = self._store.add(_ASKED, 1)
        self._say(asked)
        states: dict[int, dict[str, Any]] = {}
        until = time.monotonic() + 2.5 * _TICK
        while time.monotonic() < until and len(states) < len(calls.ranks) - 1 and not self._stop.wait(self._tick / 4):
            self._answer()
            for rank in set(calls.ranks) - {self._rank, *states}:
                key = _STATE.format(rank)
                if self._store.check([key]):
                    state = json.loads(self._store.get(key))
                    if state["asked"] >= asked:
                        states[rank] = state
        return states

    def diagnosed(self, calls: Calls, call: Call) -> str:
        """What is known of a call that failed: where the other ranks are. Takes up to some seconds."""
        if calls.wrong:
            return calls.wrong
        with contextlib.suppress(RuntimeError):
            states = self._ask(calls)
            return (
                calls.differing(self._rank, states)
                or f"rank {self._rank} was in {call}: {missing(call, self._rank, states)}"
            )
        return f"rank {self._rank} was in {call}"


@dataclass
class Watched:
    """A call that somebody waits for."""

    watch: Watch | None
    calls: Calls
    call: Call

    def begins(self) -> None:
        """The wait."""
        if not self.call.number:
            self.call.waits, self.call.began = True, time.monotonic()

    @property
    def in_turns(self) -> bool:
        """Whether it may become known meanwhile that it never ends."""
        return self.watch is not None and self.call.number > 0

    def check(self) -> None:
        """Raises NeverEnds where that is known."""
        if self.calls.wrong:
            raise NeverEnds(self.calls.wrong)

    def diagnosed(self) -> str:
        """Why it failed, as far as the other ranks say."""
        return self.watch.diagnosed(self.calls, self.call) if self.watch is not None else ""


_watch: Watch | None = None


def watch(store: Any, rank: int, calls: Calls, job: bool) -> Watch | None:
    """Has a group watched; None where nobody asked for that. store: in which its ranks met; rank: of the job; job:
    whether the group is all of a job, which begins with it."""
    global _watch
    limit = HABANA_SIM_STALL_SECONDS.get()
    if not limit:
        return None
    if _watch is None or job or not _watch.alive:
        if _watch is not None:
            _watch.stop()
        _watch = Watch(store, rank, float(limit))
    _watch.add(calls)
    return _watch
