"""Ranks come from one launcher as a whole, the innermost one, and nothing is made up."""

from __future__ import annotations

import pytest

from habana_tf import settings
from habana_tf.hardware.ranks import RankError, Ranks, launched

OWN = {"HABANA_SIM_RANK": 2, "HABANA_SIM_SIZE": 4, "HABANA_SIM_LOCAL_RANK": 0, "HABANA_SIM_LOCAL_SIZE": 2}
HOROVOD = {"HOROVOD_RANK": 3, "HOROVOD_SIZE": 8, "HOROVOD_LOCAL_RANK": 1, "HOROVOD_LOCAL_SIZE": 2}
OMPI = {"OMPI_COMM_WORLD_RANK": 5, "OMPI_COMM_WORLD_SIZE": 6,
        "OMPI_COMM_WORLD_LOCAL_RANK": 2, "OMPI_COMM_WORLD_LOCAL_SIZE": 3}  # fmt: skip
PMI = {"PMI_RANK": 1, "PMI_SIZE": 4, "MPI_LOCALRANKID": 1, "MPI_LOCALNRANKS": 4}
TORCHRUN = {"RANK": 3, "WORLD_SIZE": 4, "LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 2, "GROUP_RANK": 1}
DEEPSPEED = {"RANK": 3, "WORLD_SIZE": 4, "LOCAL_RANK": 1, "LOCAL_SIZE": 2, "CROSS_RANK": 1, "CROSS_SIZE": 2}
SLURM = {"SLURM_PROCID": 4, "SLURM_STEP_NUM_TASKS": 9, "SLURM_LOCALID": 0, "SLURM_NODEID": 1,
         "SLURM_STEP_TASKS_PER_NODE": "4(x2),1"}  # fmt: skip


pytestmark = pytest.mark.usefixtures("without_settings")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        (HOROVOD, Ranks(3, 8, 1, 2, "HOROVOD_LOCAL_RANK")),
        (OMPI, Ranks(5, 6, 2, 3, "OMPI_COMM_WORLD_LOCAL_RANK")),
        (PMI, Ranks(1, 4, 1, 4, "MPI_LOCALRANKID")),
        (SLURM, Ranks(4, 9, 0, 4, "SLURM_LOCALID")),
        (TORCHRUN, Ranks(3, 4, 1, 2, "LOCAL_RANK")),
        (DEEPSPEED, Ranks(3, 4, 1, 2, "LOCAL_RANK")),
        ({**SLURM, **OMPI, **TORCHRUN}, Ranks(3, 4, 1, 2, "LOCAL_RANK")),  # one torchrun per host, started by srun
        ({"RANK": 1, "WORLD_SIZE": 2, **OMPI}, Ranks(5, 6, 2, 3, "OMPI_COMM_WORLD_LOCAL_RANK")),  # a script's own
        ({**OWN, **HOROVOD}, Ranks(2, 4, 0, 2, "HABANA_SIM_LOCAL_RANK")),
        ({**OMPI, **HOROVOD, **SLURM}, Ranks(3, 8, 1, 2, "HOROVOD_LOCAL_RANK")),
        # srun --mpi=pmi2 sets only these two of MPICH's variables
        ({"PMI_RANK": 4, "PMI_SIZE": 9, **SLURM}, Ranks(4, 9, 0, 4, "SLURM_LOCALID")),
        # a batch script: no job step, so this is one process whatever the allocation holds
        ({"SLURM_PROCID": 0, "SLURM_LOCALID": 0, "SLURM_NODEID": 0}, None),
    ],
)
def test_launchers(monkeypatch: pytest.MonkeyPatch, environment: dict[str, object], expected: Ranks | None) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, str(value))
    assert launched() == expected


@pytest.mark.parametrize("wrong", [{"HOROVOD_RANK": 8}, {"HOROVOD_LOCAL_RANK": 2}, {"HOROVOD_LOCAL_SIZE": 9}])
def test_contradictions_are_errors(monkeypatch: pytest.MonkeyPatch, wrong: dict[str, int]) -> None:
    for name, value in {**HOROVOD, **wrong}.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(RankError, match=r"contradict.*HOROVOD_LOCAL_RANK"):
        launched()


def test_a_rank_that_is_no_number_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "first")
    with pytest.raises(settings.SettingError, match="OMPI_COMM_WORLD_RANK='first'"):
        launched()
