"""A simulated machine with one working card, and `hl-smi` run by a shell."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.child import environment, machine

WORK = """
import itertools, os, time
from habana_tf._native import _bridge
from habana_tf.hardware import claim
claim.claim()
handle = _bridge.make_interpreted("nap", [], [], lambda *a: time.sleep(0.09))
for launch in itertools.count():
    if launch == 12:
        print(os.getpid(), flush=True)  # at work for a second, however slow the host
    _bridge.run_program(handle, [])
    time.sleep(0.01)
"""


@dataclass(frozen=True)
class Busy:
    """Card 3 of `directory` is held by `pid`, which keeps it nine tenths busy."""

    directory: str
    pid: int


Shell = Callable[..., str]


@pytest.fixture(scope="package")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Runs a line of a shell that knows `hl-smi`, on the given machine; returns what it printed."""
    programs = tmp_path_factory.mktemp("bin")
    program = Path(programs, "hl-smi")
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "import sys; from habana_tf.cli.smi.main import main; '
                       'sys.exit(main())" "$@"\n')  # fmt: skip
    program.chmod(0o755)

    def run(line: str, host: str, check: bool = True, **settings: str) -> str:
        env = environment(HABANA_SIM_STATE_DIR=host, **settings)
        env["PATH"] = f"{programs}:{env['PATH']}"
        done = subprocess.run(["/bin/bash", "-c", line], env=env, capture_output=True, text=True, timeout=300)
        if check:
            assert done.returncode == 0 and not done.stderr, done.stderr
        return done.stdout if check else f"{done.returncode}: {done.stdout}{done.stderr}"

    return run


@pytest.fixture(scope="package")
def idle() -> str:
    """A machine that no process ever used."""
    return machine()


@pytest.fixture(scope="package")
def busy() -> Iterator[Busy]:
    host = machine()
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WORK)],
        env=environment(HABANA_SIM_STATE_DIR=host, HABANA_VISIBLE_MODULES="3"),
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    yield Busy(host, int(process.stdout.readline()))
    process.kill()
    process.wait()
