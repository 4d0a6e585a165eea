"""Small programs as jobs of `habana-tf run`, and what is still alive of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.child import environment


def write(path: Path, text: str) -> Path:
    path.write_text(textwrap.dedent(text))
    return path


PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)


def start(*arguments: str | Path, ignoring: Sequence[int] = (), both: bool = False) -> subprocess.Popen[str]:
    """Starts a job. ignoring: signals that whoever starts it ignores. both: its errors go where its output goes."""

    def arrange() -> None:
        for number in PASSED_ON:  # whatever started the tests
            signal.signal(number, signal.SIG_IGN if number in ignoring else signal.SIG_DFL)

    return subprocess.Popen(
        [sys.executable, "-m", "habana_tf.cli", "run", *map(str, arguments)],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if both else subprocess.PIPE,
        text=True,
        preexec_fn=arrange,
    )


def run(*arguments: str | Path) -> tuple[int, list[str], str]:
    job = start(*arguments)
    out, err = job.communicate(timeout=300)
    return job.returncode, sorted(out.splitlines()), err


@contextlib.contextmanager
def killed_in_the_end(job: subprocess.Popen[str]) -> Iterator[list[int]]:
    """Takes the numbers of processes: of a test that fails neither they are left nor the job."""
    pids: list[int] = []
    try:
        yield pids
    finally:
        job.kill()
        for pid in filter(alive, pids):
            os.kill(pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1][:3]
    except (ProcessLookupError, FileNotFoundError):
        return False


def wait_for(path: Path, seconds: float = 60) -> int:
    """The process id that a program writes to `path`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int(path.read_text())
        time.sleep(0.05)
    raise AssertionError(f"{path} was not written")


def wait_for_end(pid: int) -> None:
    for _ in range(200):
        if not alive(pid):
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} is still there")


SLEEPER = """
    import os, sys, time
    from pathlib import Path
    folder, rank = Path(sys.argv[1]), os.environ["HABANA_SIM_RANK"]
    part = folder / f"{rank}.part"
    part.write_text(str(os.getpid()))
    part.rename(folder / rank)
"""
