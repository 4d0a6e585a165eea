"""The process above an agent: it cleans up after an agent that was killed or stopped.

The agent is forked from the guard and does all the work (`agent.py`). The guard waits for the agent's end, kills what
is left of the command, and exits as the agent did. When the launcher is gone, it wakes an agent that was stopped, and
kills everything if the rank has not ended long after its grace period.

Why two processes: an agent that gets SIGKILL takes the command with it, but not the command's children; these then
become children of the guard (PR_SET_CHILD_SUBREAPER). A guard that gets SIGKILL leaves its agent, to which the kernel
sends SIGTERM (PR_SET_PDEATHSIG), upon which it kills everything below it. Both see the end of the launcher at standard
input, also behind ssh, which passes on the end of a pipe but no signals. A guard that was stopped is woken when its
parent ends, which is the launcher, or on another host the server of the connection (PR_SET_PDEATHSIG with SIGCONT).

Invariants: the guard reads nothing from standard input, because orders are for the agent. It has one thread and starts
nothing.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from types import FrameType

from habana_tf.launcher import processes

_LATE_SECONDS = 10.0
"""What an agent may take beyond the time of grace to end its rank."""


def split(grace: float) -> int | None:
    """Forks the agent. Returns None in the agent, and in the guard, when the agent has ended, its exit code.

    grace: seconds that the command has from being asked to end to being killed.
    """
    processes.adopt_orphans()
    processes.die_by(signal.SIGCONT)
    guard = os.getpid()
    ended, held = os.pipe()  # the agent's end closes it: a child of the command does not inherit it
    agent = os.fork()
    if agent == 0:
        os.close(ended)
        processes.die_by(signal.SIGTERM)
        if os.getppid() != guard:
            os._exit(128 + signal.SIGTERM)
        return None
    os.close(held)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def pass_on(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(agent, number)

    signal.signal(signal.SIGTERM, pass_on)
    return _watch(agent, ended, grace)


def _watch(agent: int, ended: int, grace: float) -> int:
    """Waits for the agent, and hurries it when the launcher is gone; returns its exit code."""
    watched = select.poll()
    watched.register(ended, select.POLLHUP)
    watched.register(0, select.POLLRDHUP)  # of a socket, which some ssh servers give; a pipe says POLLHUP unasked
    deadline: float | None = None
    while True:
        left = None if deadline is None else max(deadline - time.monotonic(), 0) * 1000
        events = dict(watched.poll(left))
        if ended in events:
            break
        if 0 in events:
            watched.unregister(0)
            deadline = time.monotonic() + grace + _LATE_SECONDS
            os.kill(agent, signal.SIGCONT)
        elif not events:
            break
    if ended not in events:
        os.kill(agent, signal.SIGKILL)
    _, status = os.waitpid(agent, 0)
    processes.clear()
    return processes.exit_code(os.waitstatus_to_exitcode(status))
