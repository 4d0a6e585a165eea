"""Runs a job: all ranks start, and when one fails the others are stopped.

There is one agent per rank (`agent.py`), on this host or through a remote shell. The launcher sends each its
description, prints its output, and passes its own signals on to all ranks. A signal that the launcher was started to
ignore, as under nohup, stays ignored, also by the ranks on its host.

Invariants: `run` returns when no agent is left, so nothing of the job is. The first rank that failed is named, and its
exit code is the job's. A second interrupt stops the ranks as a failure does; a third kills what is left, and so does
the end of the grace period. A job does not fail because nobody reads its output.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from habana_tf.files.escaped import escaped
from habana_tf.launcher import processes
from habana_tf.launcher.agent import END, FAILED, KILL
from habana_tf.launcher.console import Console
from habana_tf.launcher.plan import LOCAL, RSH, PlanError, Rank

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)
_ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
_POLL_SECONDS = 0.1
_UNREACHABLE = 255
"""Exit code of ssh when there is no connection to the host, or none any more."""
_KILL_SECONDS = 3.0
"""What a remote shell may take to bring the order to kill over and the end of the agent back."""
_AGENTS_SECONDS = 5.0
"""What an agent may take beyond the grace of its program."""


@dataclass
class _Running:
    """A rank whose agent was started. ended: its exit code and the second of the job at which it ended."""

    rank: Rank
    agent: subprocess.Popen[bytes]
    ended: tuple[int, float] | None = None


@dataclass
class Job:
    """ranks: as planned. rsh: words of the command that runs a shell line on another host, before host and line.
    rendezvous: the address Horovod's ranks meet at. grace: seconds from asking a rank to end to killing it. line: what
    its user typed to start the job."""

    ranks: Sequence[Rank]
    console: Console
    rsh: Sequence[str] = tuple(RSH.split())
    rendezvous: str | None = None
    grace: float = 10.0
    line: str = ""
    _running: list[_Running] = field(default_factory=list)
    _start: float = 0.0
    _stopping: float | None = None
    _killing: float | None = None
    _asked: int = 0

    def run(self) -> int:
        """Runs the job; returns 0, or the exit code of the rank that failed first (128 + n for signal n).

        Raises PlanError when the Python or the remote shell of a rank cannot be started.
        """
        self._start = time.monotonic()
        here = all(rank.host == LOCAL for rank in self.ranks)
        if here:  # else a remote shell may leave a connection for the next one, which is not the job's
            processes.adopt_orphans()
        with self._signals(), selectors.DefaultSelector() as selector:
            try:
                for rank in self.ranks:
                    self._running.append(self._launch(rank, selector))
                while any(each.ended is None for each in self._running) or selector.get_map():
                    self._read(selector)
                    self._look()
                    self._hurry()
                    if all(each.ended is not None for each in self._running):
                        self._drain(selector)
            finally:
                self._kill()
                while any(each.agent.poll() is None for each in self._running):  # only after an exception
                    self._hurry()
                    time.sleep(_POLL_SECONDS)
                if here:
                    processes.clear()  # what an agent left that was killed together with its guard
        return self._verdict()

    def _launch(self, rank: Rank, selector: selectors.BaseSelector) -> _Running:
        words = [rank.python, "-m", "habana_tf.launcher.agent"]
        whose = "--python"
        if rank.host != LOCAL:
            path = rank.environment.get("PYTHONPATH")
            # In the place of the shell, so that the guard's parent is what the connection's end ends (`guard.py`).
            line = shlex.join(["exec", *(["env", f"PYTHONPATH={path}"] if path else []), *words])
            words, whose = [*self.rsh, rank.host, line], "--rsh"
        try:
            agent = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,  # a terminal's Ctrl-C is the launcher's to pass on
            )
        except OSError as error:
            raise PlanError(f"{words[0]} cannot be started: {error.strerror}; choose another with {whose}") from error
        description = {
            "command": rank.command,
            "environment": rank.environment,
            "directory": rank.directory,
            "share": rank.share,
            "rendezvous": self.rendezvous,
            "grace": self.grace,
            "others": self._others(rank),
            "line": self.line,
        }
        self._tell(agent, json.dumps(description))
        for stream, pipe in (("out", agent.stdout), ("err", agent.stderr)):
            assert pipe is not None
            selector.register(pipe, selectors.EVENT_READ, (rank.rank, stream))
        return _Running(rank, agent)

    def _others(self, rank: Rank) -> dict[str, list[int]]:
        """The ranks on other hosts than this one's."""
        others: dict[str, list[int]] = {}
        for each in self.ranks:
            if each.host != rank.host:
                others.setdefault(each.host, []).append(each.rank)
        return others

    def _tell(self, agent: subprocess.Popen[bytes], line: str) -> None:
        assert agent.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended
            agent.stdin.write(line.encode() + b"\n")

    def _read(self, selector: selectors.BaseSelector) -> None:
        for key, _ in selector.select(_POLL_SECONDS):
            rank, stream = key.data
            data = os.read(key.fd, 1 << 16)
            self.console.feed(rank, stream, data)
            if not data:
                selector.unregister(key.fileobj)

    def _drain(self, selector: selectors.BaseSelector) -> None:
        """All have ended: takes what is left in the pipes, which a forgotten grandchild may keep open."""
        while selector.select(0):
            self._read(selector)
        for key in list(selector.get_map().values()):
            rank, stream = key.data
            self.console.feed(rank, stream, b"")
            selector.unregister(key.fileobj)

    def _look(self) -> None:
        """Notes which ranks have ended; the first that failed stops the job."""
        for each in self._running:
            code = each.agent.poll()
            if code is None or each.ended is not None:
                continue
            code = processes.exit_code(code)
            each.ended = code, time.monotonic() - self._start
            if code and self._stopping is None:
                left = sum(other.ended is None for other in self._running)
                self.console.say(f"{_ending(each)}; stopping the other {left}" if left else _ending(each))
                self._stop()

    def _stop(self) -> None:
        """Asks all ranks to end."""
        if self._stopping is None:
            self._stopping = time.monotonic()
            for each in self._running:
                self._tell(each.agent, END)

    def _hurry(self) -> None:
        """Kills ranks that did not end in time, and at last their agents, with which their programs die."""
        now = time.monotonic()
        if self._stopping is not None and now - self._stopping > self.grace + _AGENTS_SECONDS:
            self._kill()
        if self._killing is None:
            return
        for each in self._running:
            if each.agent.poll() is None and now - self._killing > _AGENTS_SECONDS:
                each.agent.kill()
            elif each.agent.poll() is None and now - self._killing > _KILL_SECONDS:
                each.agent.terminate()

    def _kill(self) -> None:
        """Makes the agents kill their programs with all that these have started, and end. Waits for none.

        A remote shell is left to bring the order over; when it is ended itself (`_hurry`), its agent meets the end of
        its input and gives the program the time of grace.
        """
        if self._killing is None:
            self._killing = time.monotonic()
            for each in self._running:
                if each.rank.host != LOCAL:
                    self._tell(each.agent, KILL)
                elif each.agent.poll() is None:
                    each.agent.terminate()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def pass_on(number: int, frame: FrameType | None) -> Any:
            if number in _ENDING:
                self._asked += 1
                if self._asked == 2:
                    self._stop()
                elif self._asked > 2:
                    self._kill()
            if self._stopping is None:
                for each in self._running:
                    self._tell(each.agent, str(int(number)))

        heard = [number for number in _PASSED_ON if signal.getsignal(number) != signal.SIG_IGN]  # nohup's is not ours
        before = {number: signal.signal(number, pass_on) for number in heard}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _verdict(self) -> int:
        failed = sorted((each for each in self._running if each.ended and each.ended[0]), key=_when)
        if not failed:
            return 0
        if len(failed) > 1:
            self.console.say("in order: " + "; ".join(_ending(each) for each in failed))
        assert failed[0].ended is not None
        return failed[0].ended[0]


def _when(each: _Running) -> float:
    assert each.ended is not None
    return each.ended[1]


def _ending(each: _Running) -> str:
    """How a rank ended, in words."""
    assert each.ended is not None
    code, seconds = each.ended
    rank = escaped(each.rank.describe()) + (f" (process {each.agent.pid})" if each.rank.host == LOCAL else "")
    return f"{rank} {_meaning(code, each.rank.host != LOCAL)} after {seconds:.1f} s"


def _meaning(code: int, remote: bool) -> str:
    if remote and code == _UNREACHABLE:
        return "could not be reached any more, or failed with exit code 255"
    if code == FAILED:
        return "could not be started (exit code 127)"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(code - 128).name}"
    return f"failed with exit code {code}"
