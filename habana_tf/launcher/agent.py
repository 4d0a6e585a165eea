"""The process beside one rank, on the rank's host: it runs the program and makes sure that the program ends.

What: reads one line of JSON from standard input, runs the command it names in a session of its own, and exits as the
command does (128 + n for signal n). Every further line is the number of a signal for the command. The end of input
means that the launcher is gone or wants the job to end: then the command and all it started are ended. SIGTERM to the
agent itself kills them at once. When the command fails unasked, the agent says which other hosts of the job answer no
more (`reach.py`), and with it for which ranks the command has probably waited.

Why a process between: the launcher may be killed, or be on another host behind ssh, which passes on no signal. The end
of a pipe arrives in every case.

Invariants: no TensorFlow here, and nothing of a job outlives its agent: the command dies with it (PR_SET_PDEATHSIG),
and what the command left behind in its session is ended with the command.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TextIO

from habana_tf.launcher import reach

_PR_SET_PDEATHSIG = 1
FAILED = 127
"""Exit code of a command that cannot be started, as in shells."""


def main() -> int:
    """Runs the rank that standard input describes; returns its exit code.

    The description: {"command": [...], "environment": {...}, "directory": ..., "cores": [...] or null,
    "rendezvous": address or null, "grace": seconds, "others": {other host: [ranks on it]}}.
    """
    line = sys.stdin.readline()
    if not line:
        return FAILED
    rank = json.loads(line)
    environment = {**os.environ, **rank["environment"]}
    if rank["rendezvous"] is not None and "HOROVOD_GLOO_IFACE" not in environment:
        environment["HOROVOD_GLOO_IFACE"] = interface_towards(rank["rendezvous"])
    if rank["cores"] is not None:
        os.sched_setaffinity(0, rank["cores"])
    others = reach.Others(rank["others"])
    told = threading.Event()
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
        _signal(program, signal.SIGKILL)

    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=_obey, args=(sys.stdin, program, rank["grace"], told), daemon=True).start()
    code = program.wait()
    _signal(program, signal.SIGKILL)  # what it left behind holds ports and cards
    if code and not told.is_set():
        for sentence in others.lost():
            print(sentence, file=sys.stderr)
    return code if code >= 0 else 128 - code


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
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def arm() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before the line above
            os._exit(FAILED)

    return arm


def _obey(orders: TextIO, program: subprocess.Popen[Any], grace: float, told: threading.Event) -> None:
    for line in orders:
        _signal(program, int(line))
    told.set()
    _signal(program, signal.SIGTERM)
    try:
        program.wait(grace)
    except subprocess.TimeoutExpired:
        _signal(program, signal.SIGKILL)


def _signal(program: subprocess.Popen[Any], number: int) -> None:
    """Sends a signal to all of the program's session that is still in its process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(program.pid, number)


if __name__ == "__main__":
    sys.exit(main())
