"""The process beside one rank, on the rank's host: it runs the program and makes sure that the program ends.

It reads one line of JSON from standard input, runs the command in it in a session of its own, and exits as the command
does (128 + n for signal n). Every further line is an order: the number of a signal for the command's session; `end`,
which asks the command and everything it started to end, and kills them after the grace period; `kill`, which kills them
at once. The end of input means that the launcher is gone, and counts as `end`; SIGTERM to the agent counts as `kill`.
When the command fails without an order, the agent names the hosts of the job that no longer answer (`reach.py`), and
the ranks on them. When the command has noted the path of its last checkpoint (HABANA_SIM_CHECKPOINT_NOTE), the agent
prints it, with the line that continues the job.

Why a process between: the launcher may be killed, or be on another host behind ssh, which passes on no signals. The end
of a pipe arrives in every case.

Invariants: no TensorFlow here. What the command started ends when the command does, whatever process group or session
it is in: all of it is below the agent, which adopts processes whose parents end (`processes.py`). The process above the
agent does the same when the agent is killed or stopped (`guard.py`). Of the note, only a line of printable text is
shown, and only from a regular file that the command made.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TextIO

from habana_tf.files.escaped import escaped
from habana_tf.launcher import free_cards, guard, processes, reach

_NOTE, _MOST_NOTE_BYTES = "checkpoint", 4096
END, KILL = "end", "kill"
"""Orders besides the numbers of signals."""
FAILED = 127
"""Exit code of a command that cannot be started, as in shells."""
REFUSED = 1
"""Exit code of a rank whose card is held by another process: the command is not started."""


def main() -> int:
    """Runs the rank that standard input describes; returns its exit code.

    The description: {"command": [...], "environment": {...}, "directory": ..., "share": [which part, of how many] or
    null, "rendezvous": address or null, "grace": seconds, "others": {other host: [ranks on it]}, "line": the job's}.
    """
    line = sys.stdin.readline()
    if not line:
        return FAILED
    rank = json.loads(line)
    code = guard.split(rank["grace"])
    if code is not None:
        return code
    os.environ.update(rank["environment"])
    refused = free_cards.refusal()
    if refused is not None:
        print(refused, file=sys.stderr, flush=True)
        return REFUSED
    with tempfile.TemporaryDirectory(prefix="habana-tf-run-", ignore_cleanup_errors=True) as folder:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)  # what is there later may be another
        note = os.path.join(folder, _NOTE)
        code = _run(rank, {**os.environ, "HABANA_SIM_CHECKPOINT_NOTE": note})
        checkpoint = noted(opened) if code else ""
    if checkpoint:
        print(f"the job goes on from {checkpoint} by: {escaped(rank['line'])}", file=sys.stderr)
    sys.stderr.flush()
    with contextlib.suppress(ProcessLookupError):
        os.kill(os.getppid(), signal.SIGCONT)  # the guard, should it have been stopped, collects this process
    return code


def noted(folder: int) -> str:
    """What the file of the note in an open directory says, as printable text; "" where there is no such file.

    The command writes it, and it is shown to the user who started the job: links, pipes and more than a path's length
    are not read.
    """
    try:
        file = os.open(_NOTE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return _unread(error.strerror or str(error))
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            return _unread("it is not a file of its own")
        if status.st_size > _MOST_NOTE_BYTES:
            return _unread(f"it has {status.st_size} bytes, and a path has at most {_MOST_NOTE_BYTES}")
        return escaped(os.read(file, _MOST_NOTE_BYTES).decode(errors="replace").strip())
    finally:
        os.close(file)


def _unread(why: str) -> str:
    print(f"the note of the last checkpoint (HABANA_SIM_CHECKPOINT_NOTE) is not read: {why}", file=sys.stderr)
    return ""


def _run(rank: dict[str, Any], environment: dict[str, str]) -> int:
    """Runs the command of a rank, described as above, and obeys orders meanwhile; returns the exit code."""
    if rank["rendezvous"] is not None and "HOROVOD_GLOO_IFACE" not in environment:
        environment["HOROVOD_GLOO_IFACE"] = interface_towards(rank["rendezvous"])
    if rank["share"] is not None:
        os.sched_setaffinity(0, cores(*rank["share"]))
    others = reach.Others(rank["others"])
    told = threading.Event()
    processes.adopt_orphans()
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
        where = escaped(f"{rank['command'][0]} in {rank['directory']}")
        print(f"cannot run {where}: {error.strerror}", file=sys.stderr)
        return FAILED
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher decides, also at a terminal that sends it to all

    def end(number: int, frame: FrameType | None) -> None:
        told.set()
        processes.signal_all(signal.SIGKILL)

    signal.signal(signal.SIGTERM, end)
    obeying = threading.Thread(target=_obey, args=(sys.stdin, program.pid, rank["grace"], told), daemon=True)
    obeying.start()
    code = program.returncode = _wait(program.pid)
    processes.clear()  # what it left behind holds ports and cards
    if code and not told.is_set():
        for sentence in others.lost():
            print(escaped(sentence), file=sys.stderr)
    return processes.exit_code(code)


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
        processes.die_by(signal.SIGKILL)
        if os.getppid() != parent:  # it died before the line above
            os._exit(FAILED)

    return arm


def _obey(orders: TextIO, session: int, grace: float, told: threading.Event) -> None:
    for order in map(str.strip, itertools.chain(orders, [END])):
        if order == KILL:
            told.set()
            processes.signal_all(signal.SIGKILL)
        elif order != END:
            _signal_session(session, int(order))
        elif not told.is_set():
            told.set()
            processes.signal_all(signal.SIGTERM)
            late = threading.Timer(grace, processes.signal_all, [signal.SIGKILL])
            late.daemon = True
            late.start()


def _wait(program: int) -> int:
    """Waits for a child, and for the orphans that end before it; returns its exit code, -n for signal n."""
    while True:
        pid, status = os.wait()
        if pid == program:
            return os.waitstatus_to_exitcode(status)


def _signal_session(session: int, number: int) -> None:
    """Sends a signal to every process group of a session: `timeout`, for one, makes a group. Whoever gives a process a
    session of its own wants to keep such signals from it."""
    groups = set()
    for process in processes.below():
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(process) == session:
                groups.add(os.getpgid(process))
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main())
