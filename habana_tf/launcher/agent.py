"""The process beside one rank, on the rank's host: it runs the program and makes sure that the program ends.

What: reads one line of JSON from standard input, runs the command it names in a session of its own, and exits as the
command does (128 + n for signal n). Every further line is an order: the number of a signal for the command's session;
`end`, upon which the command and all it started are asked to end, and killed after the time of grace; `kill`, upon
which they are killed at once. The end of input means that the launcher is gone, and is such an `end`; SIGTERM to the
agent itself is such a `kill`. When the command fails unasked, the agent says which other hosts of the job answer no
more (`reach.py`), and with it for which ranks the command has probably waited. However it fails: a command that has
noted where its last checkpoint is (HABANA_SIM_CHECKPOINT_NOTE) is said to go on from there, and by which line.

Why a process between: the launcher may be killed, or be on another host behind ssh, which passes on no signal. The end
of a pipe arrives in every case.

Invariants: no TensorFlow here. What the command started ends when the command has, in whatever process group or session
it is: its processes are all below the agent, to which they come when their own parents end (PR_SET_CHILD_SUBREAPER). An
agent that is killed itself takes the command with it (PR_SET_PDEATHSIG), and only that.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from habana_tf.launcher import reach

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LAST_SECONDS = 3.0
"""What killed processes may take to end; the kernel ends them at once, unless they wait for a disk."""
END, KILL = "end", "kill"
"""Orders besides the numbers of signals."""
_prctl = ctypes.CDLL(None, use_errno=True).prctl
FAILED = 127
"""Exit code of a command that cannot be started, as in shells."""


def main() -> int:
    """Runs the rank that standard input describes; returns its exit code.

    The description: {"command": [...], "environment": {...}, "directory": ..., "share": [which part, of how many] or
    null, "rendezvous": address or null, "grace": seconds, "others": {other host: [ranks on it]}, "line": the job's}.
    """
    line = sys.stdin.readline()
    if not line:
        return FAILED
    rank = json.loads(line)
    with tempfile.TemporaryDirectory(prefix="habana-tf-run-") as folder:
        note = Path(folder, "checkpoint")
        code = _run(rank, {**os.environ, **rank["environment"], "HABANA_SIM_CHECKPOINT_NOTE": str(note)})
        checkpoint = note.read_text(errors="replace").strip() if code and note.is_file() else ""
    if checkpoint:
        print(f"the job goes on from {checkpoint} by: {rank['line']}", file=sys.stderr)
    return code


def _run(rank: dict[str, Any], environment: dict[str, str]) -> int:
    """Runs the command of a rank, described as above, and obeys orders meanwhile; returns the exit code."""
    if rank["rendezvous"] is not None and "HOROVOD_GLOO_IFACE" not in environment:
        environment["HOROVOD_GLOO_IFACE"] = interface_towards(rank["rendezvous"])
    if rank["share"] is not None:
        os.sched_setaffinity(0, cores(*rank["share"]))
    others = reach.Others(rank["others"])
    told = threading.Event()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        program = subprocess.Popen(
            rank["command"],
            cwd=rank["directory"],
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_die_with(os.getpid()),
        )
    except OSError as error:
        print(f"cannot run {rank['command'][0]} in {rank['directory']}: {error.strerror}", file=sys.stderr)
        return FAILED
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher decides, also at a terminal that sends it to all

    def end(number: int, frame: FrameType | None) -> None:
        told.set()
        _signal_all(signal.SIGKILL)

    signal.signal(signal.SIGTERM, end)
    obeying = threading.Thread(target=_obey, args=(sys.stdin, program.pid, rank["grace"], told), daemon=True)
    obeying.start()
    code = program.returncode = _wait(program.pid)
    _clear()  # what it left behind holds ports and cards
    if code and not told.is_set():
        for sentence in others.lost():
            print(sentence, file=sys.stderr)
    return code if code >= 0 else 128 - code


def cores(part: int, parts: int) -> list[int]:
    """One of some equal parts of the cores this process may use; all of them if there are fewer cores than parts."""
    usable = sorted(os.sched_getaffinity(0))
    size = len(usable) // parts
    return usable[part * size : (part + 1) * size] or usable


def interface_towards(address: str) -> str:
    """The network interface of this host that packets to `address` leave by."""
    import psutil

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))
        ours = probe.getsockname()[0]
    for name, addresses in psutil.net_if_addrs().items():
        if any(each.address == ours for each in addresses):
            return name
    raise OSError(f"no network interface of this host has the address {ours}")


def _die_with(parent: int) -> Callable[[], None]:
    """What a child runs before its program, so that it is killed when its parent is."""

    def arm() -> None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before the line above
            os._exit(FAILED)

    return arm


def _obey(orders: TextIO, session: int, grace: float, told: threading.Event) -> None:
    for order in map(str.strip, itertools.chain(orders, [END])):
        if order == KILL:
            told.set()
            _signal_all(signal.SIGKILL)
        elif order != END:
            _signal_session(session, int(order))
        elif not told.is_set():
            told.set()
            _signal_all(signal.SIGTERM)
            late = threading.Timer(grace, _signal_all, [signal.SIGKILL])
            late.daemon = True
            late.start()


def _wait(program: int) -> int:
    """Waits for a child, and for the orphans that end before it; returns its exit code, -n for signal n."""
    while True:
        pid, status = os.wait()
        if pid == program:
            return os.waitstatus_to_exitcode(status)


def _clear() -> None:
    """Kills all that runs below this process, and what it starts meanwhile."""
    end = time.monotonic() + _LAST_SECONDS
    with contextlib.suppress(ChildProcessError):  # nobody is left
        while time.monotonic() < end:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                _signal_all(signal.SIGKILL)
                time.sleep(0.01)


def _signal_all(number: int) -> None:
    for process in _below():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def _signal_session(session: int, number: int) -> None:
    """Sends a signal to every process group of a session: `timeout`, for one, makes a group. Whoever gives a process a
    session of its own wants to keep such signals from it."""
    groups = set()
    for process in _below():
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(process) == session:
                groups.add(os.getpgid(process))
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


def _below() -> list[int]:
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


if __name__ == "__main__":
    sys.exit(main())
