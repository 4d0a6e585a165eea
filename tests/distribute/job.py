"""Runs one script as several workers, as a user would launch it, and leaves no process behind.

A script calls `report(rank, value)` once per rank; `run` gives the values back in the order of the ranks. Whatever
happened, all processes of a job are killed at its end: they are known by a variable of their environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from habana_tf.launcher import plan, rendezvous
from tests import forked
from tests.child import environment, machine

TIMEOUT = 300.0
"""Seconds for a job that takes half a minute by itself: machines may be busy."""

_PROLOGUE = """
import json, os, pathlib

def report(rank, value):
    path = pathlib.Path(os.environ["REPORTS"], str(rank))
    path.with_suffix(".part").write_text(json.dumps(value))
    path.with_suffix(".part").rename(path)

"""


def free_ports(count: int) -> list[int]:
    """Ports nobody uses at this moment."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("localhost", 0))
        return [each.getsockname()[1] for each in sockets]


def cluster(ports: Sequence[int], index: int) -> str:
    """TF_CONFIG of one worker of a cluster on this host."""
    workers = [f"localhost:{port}" for port in ports]
    return json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}})


@dataclass
class Job:
    """The processes of a running job. folder: of its script, output and reports; machine: whose cards it uses."""

    folder: Path
    machine: str = field(default_factory=machine)
    processes: list[subprocess.Popen[bytes] | forked.Child] = field(default_factory=list)

    def start(self, command: Sequence[str], **variables: str) -> None:
        """One more process, in a session of its own."""
        with open(self.folder / f"output{len(self.processes)}", "wb") as output:
            self.processes.append(
                subprocess.Popen(
                    command, cwd=self.folder, env=self._environment(variables),
                    stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                )
            )  # fmt: skip

    def script(self, *arguments: str, framework: str = "tensorflow", **variables: str) -> None:
        """One more process that runs the script, in a session of its own; it finds the framework imported, and where
        it loads HPU what that imports."""
        hpu = "habana" in (self.folder / "script.py").read_text()
        with open(self.folder / f"output{len(self.processes)}", "wb") as output:
            self.processes.append(
                forked.Child(
                    ["script.py", *arguments], self._environment(variables), self.folder,
                    stdout=output.fileno(), stderr=output.fileno(), session=True, hpu=hpu,
                    framework=framework,
                )
            )  # fmt: skip

    def _environment(self, variables: dict[str, str]) -> dict[str, str]:
        own = {"REPORTS": str(self.folder / "reports"), "HABANA_SIM_STATE_DIR": self.machine}
        return environment(**{**own, **variables})

    def output(self, index: int) -> str:
        """What a process has printed so far."""
        return (self.folder / f"output{index}").read_text(errors="replace")

    def alive(self) -> list[int]:
        """Processes of this job that run: they have its folder in their environment or are of a session it began."""
        mark = b"REPORTS=" + str(self.folder).encode()
        sessions = {process.pid for process in self.processes}
        found = []
        for entry in filter(lambda each: each.name.isdigit(), Path("/proc").iterdir()):
            with contextlib.suppress(OSError):  # it ended just now, or is somebody else's
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                ours = os.getsid(int(entry.name)) in sessions or mark in (entry / "environ").read_bytes()
                if ours and state != "Z":  # a zombie has ended; whoever inherits it may take long to notice
                    found.append(int(entry.name))
        return found

    def left(self, seconds: float = 5.0) -> list[int]:
        """Processes of this job that outlive it: horovodrun tells its ranks to end and does not wait for that."""
        end = time.monotonic() + seconds
        while (found := self.alive()) and time.monotonic() < end:
            time.sleep(0.05)
        return found

    def wait(self, timeout: float = TIMEOUT) -> list[int]:
        """The exit codes; a process that takes longer is an error that shows what it printed."""
        end = time.monotonic() + timeout
        for index, process in enumerate(self.processes):
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"process {index} is not done\n{self.everything()}") from None
        return [process.returncode for process in self.processes]

    def everything(self) -> str:
        """What all processes printed, the last part of each."""
        return "\n".join(f"--- process {k}\n{self.output(k)[-6000:]}" for k in range(len(self.processes)))

    def reports(self) -> list[Any]:
        """What the ranks reported, in their order."""
        files = sorted((f for f in (self.folder / "reports").iterdir() if not f.suffix), key=lambda f: int(f.name))
        return [json.loads(file.read_text()) for file in files]

    def done(self, ranks: int, timeout: float = TIMEOUT) -> list[Any]:
        """Waits for all, who must all succeed, and gives their reports."""
        codes = self.wait(timeout)
        assert not any(codes), f"exit codes {codes}\n{self.everything()}"
        reports = self.reports()
        assert len(reports) == ranks, f"{len(reports)} ranks reported\n{self.everything()}"
        return reports


@contextlib.contextmanager
def job(script: str) -> Iterator[Job]:
    """A job to start processes in; `folder/script.py` is the script. Kills every process at the end."""
    folder = Path(tempfile.mkdtemp(prefix="habana_tf-job-"))
    (folder / "script.py").write_text(_PROLOGUE + textwrap.dedent(script))
    (folder / "reports").mkdir()
    running = Job(folder)
    try:
        yield running
    finally:
        for process in running.processes:
            process.kill()
            process.wait()
        for pid in running.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def run(script: str, workers: int, *arguments: str, **variables: str) -> list[Any]:
    """Runs a script as the workers of a cluster that TF_CONFIG describes, one card each."""
    ports = free_ports(workers)
    with job(script) as running:
        for rank in range(workers):
            config = {"TF_CONFIG": cluster(ports, rank), "HLS_MODULE_ID": str(rank), **variables}
            running.script(*arguments, **config)
        return running.done(workers)


def run_srun(script: str, workers: int) -> list[Any]:
    """Runs a script with the variables that srun gives the ranks of a job step on this host."""
    shared = {"STEP_NUM_TASKS": workers, "NODEID": 0, "STEP_TASKS_PER_NODE": workers, "STEP_NODELIST": "localhost",
              "JOB_ID": free_ports(1)[0], "STEP_ID": 0}  # fmt: skip
    with job(script) as running:
        for rank in range(workers):
            own = {**shared, "PROCID": rank, "LOCALID": rank}
            running.script(**{f"SLURM_{name}": str(value) for name, value in own.items()})
        return running.done(workers)


@contextlib.contextmanager
def gloo(running: Job, workers: int, *arguments: str, **variables: str) -> Iterator[None]:
    """Starts the script as Horovod's ranks over Gloo, as `habana-tf run` does it. Unlike ranks of MPI they find
    TensorFlow imported, and leave the CPU to others while they wait."""
    options = plan.JobOptions(workers, "horovod", "script.py", arguments)
    with rendezvous.server(options) as meeting:
        for rank in plan.make(options, meeting):
            own = {name: value for name, value in rank.environment.items() if name.startswith(("HOROVOD_", "HABANA_"))}
            running.script(*arguments, **own, HOROVOD_GLOO_IFACE="lo", **variables)
        yield


def run_gloo(script: str, workers: int, *arguments: str, **variables: str) -> list[Any]:
    """Runs a script as Horovod's ranks over Gloo."""
    with job(script) as running, gloo(running, workers, *arguments, **variables):
        return running.done(workers)


_MPIRUN = Path(sys.executable).with_name("mpirun")
needs_mpi = pytest.mark.skipif(not _MPIRUN.exists(), reason="no Open MPI in this environment (make horovod)")


def mpirun(workers: int, *command: str) -> list[str]:
    """The command line of Open MPI on a machine with fewer cores than workers, possibly as root.

    A rank that waits gives its core to others.
    """
    options = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
    return [str(_MPIRUN), *options, "-np", str(workers), *command]


def run_mpi(script: str, workers: int, *arguments: str, python: Sequence[str] = (), **variables: str) -> list[Any]:
    """Runs a script under mpirun. python: options of the interpreter, such as -m habana_tf."""
    with job(script) as running:
        running.start(mpirun(workers, sys.executable, *python, "script.py", *arguments), **variables)
        return running.done(workers)
