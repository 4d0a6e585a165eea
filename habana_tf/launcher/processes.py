"""The processes below this one, in whatever sessions and process groups they are.

Linux only: `prctl` makes this process the parent of orphans below it (`adopt_orphans`), and /proc tells parents.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LAST_SECONDS = 3.0
"""What killed processes may take to end; the kernel ends them at once, unless they wait for a disk."""
_prctl = ctypes.CDLL(None, use_errno=True).prctl


def adopt_orphans() -> None:
    """Makes this process the parent of what its descendants leave when they end."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_by(number: int) -> None:
    """Has the kernel send a signal to this process when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def clear() -> None:
    """Kills all that runs below this process, and what it starts meanwhile."""
    end = time.monotonic() + _LAST_SECONDS
    with contextlib.suppress(ChildProcessError):  # nobody is left
        while time.monotonic() < end:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                signal_all(signal.SIGKILL)
                time.sleep(0.01)


def signal_all(number: int) -> None:
    """Sends a signal to all that runs below this process."""
    for process in below():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def exit_code(code: int) -> int:
    """A process's exit code as a shell tells it: 128 and the number of the signal that ended it."""
    return code if code >= 0 else 128 - code


def below() -> list[int]:
    """The descendants of this process, those that have ended and are not collected too."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:  # it may have ended just now
            parent = int(stat.read().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    found = [os.getpid()]
    for process in found:
        found += children.get(process, [])
    return found[1:]
