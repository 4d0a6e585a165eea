"""Ranks without MPI, as Habana's scripts ask for them."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from habana_tf import multinode_helpers, settings
from tests.child import environment
from tests.distribute.job import mpirun, needs_mpi


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in settings.declared():
        monkeypatch.delenv(setting.name, raising=False)


def _all() -> tuple[int, int, int, int]:
    helpers = multinode_helpers
    return helpers.comm_rank(), helpers.comm_size(), helpers.comm_local_rank(), helpers.comm_local_size()


def test_without_a_launcher_there_is_one_process() -> None:
    assert _all() == (0, 1, 0, 1)


def test_under_mpirun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RANK", 5), ("SIZE", 16), ("LOCAL_RANK", 1), ("LOCAL_SIZE", 4)):
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", str(value))
    assert _all() == (5, 16, 1, 4)


@needs_mpi
def test_a_real_mpirun_gives_ranks_and_cards() -> None:
    code = """
    from habana_tf.hardware import claim
    from habana_tf.multinode_helpers import comm_local_rank, comm_local_size, comm_rank, comm_size
    line = f"{comm_rank()}/{comm_size()} {comm_local_rank()}/{comm_local_size()} card {claim.claim().module_id}\\n"
    import os
    os.write(1, line.encode())
    """
    environ = environment(HABANA_VISIBLE_MODULES="5,2")
    command = mpirun(2, sys.executable, "-c", textwrap.dedent(code))
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120)
    assert sorted(done.stdout.splitlines()) == ["0/2 0/2 card 5", "1/2 1/2 card 2"], done.stderr
