"""Ranks without MPI, as Habana's scripts ask for them."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap

import pytest

from habana_frameworks.tensorflow import multinode_helpers
from tests.child import environment, python
from tests.distribute.job import mpirun, needs_mpi

pytestmark = pytest.mark.usefixtures("without_settings")


def _all() -> tuple[int, int, int, int]:
    helpers = multinode_helpers
    return helpers.comm_rank(), helpers.comm_size(), helpers.comm_local_rank(), helpers.comm_local_size()


def test_without_a_launcher_there_is_one_process() -> None:
    assert _all() == (0, 1, 0, 1)


def test_under_mpirun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RANK", 5), ("SIZE", 16), ("LOCAL_RANK", 1), ("LOCAL_SIZE", 4)):
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", str(value))
    assert _all() == (5, 16, 1, 4)


def test_a_caller_can_ask_whether_a_launcher_said_it(monkeypatch: pytest.MonkeyPatch) -> None:
    helpers = multinode_helpers
    asked = (helpers.comm_rank, helpers.comm_size, helpers.comm_local_rank, helpers.comm_local_size)
    assert [ask(check_available=True) for ask in asked] == [None] * 4
    for name, value in (("RANK", 5), ("SIZE", 16), ("LOCAL_RANK", 1), ("LOCAL_SIZE", 4)):
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", str(value))
    assert [ask(True) for ask in asked] == [5, 16, 1, 4]


SET_UP = """
    import os
    from habana_frameworks.tensorflow import multinode_helpers
    for _ in range(2):  # only the first call does anything
        multinode_helpers._setup_env_for_multinode(required=False)
    print({name: os.environ.get(name) for name in
           ("ID", "HLS_MODULE_ID", "TF_RANK_PREFIX", "HBN_TF_GRAPH_PREFIX", "TF_DUMP_GRAPH_PREFIX")})
"""


@pytest.mark.parametrize(
    "given, expected",
    [
        (
            {"HABANA_VISIBLE_MODULES": "4,6"},
            {"ID": "1", "HLS_MODULE_ID": "6", "TF_RANK_PREFIX": "rank_3_", "HBN_TF_GRAPH_PREFIX": "rank_3_",
             "TF_DUMP_GRAPH_PREFIX": None},
        ),
        (
            {"HLS_MODULE_ID": "2", "ID": "7", "TF_DUMP_GRAPH_PREFIX": "/tmp/graphs/"},
            {"ID": "7", "HLS_MODULE_ID": "2", "TF_RANK_PREFIX": "rank_3_", "HBN_TF_GRAPH_PREFIX": "rank_3_",
             "TF_DUMP_GRAPH_PREFIX": "/tmp/graphs/rank_3_"},
        ),
    ],
)  # fmt: skip
def test_the_environment_of_one_of_several(given: dict[str, str], expected: dict[str, str | None]) -> None:
    ranks = {"RANK": "3", "SIZE": "4", "LOCAL_RANK": "1", "LOCAL_SIZE": "2"}
    done = python(SET_UP, **{f"OMPI_COMM_WORLD_{name}": value for name, value in ranks.items()}, **given)
    assert ast.literal_eval(done.stdout) == expected


@needs_mpi
def test_a_real_mpirun_gives_ranks_and_cards() -> None:
    code = """
    from habana_tf.hardware import claim
    from habana_frameworks.tensorflow.multinode_helpers import comm_local_rank, comm_local_size, comm_rank, comm_size
    line = f"{comm_rank()}/{comm_size()} {comm_local_rank()}/{comm_local_size()} card {claim.claim().module_id}\\n"
    import os
    os.write(1, line.encode())
    """
    environ = environment(HABANA_VISIBLE_MODULES="5,2")
    command = mpirun(2, sys.executable, "-c", textwrap.dedent(code))
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=600)
    assert sorted(done.stdout.splitlines()) == ["0/2 0/2 card 5", "1/2 1/2 card 2"], done.stderr
