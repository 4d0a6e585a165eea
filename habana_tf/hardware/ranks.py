"""Which of how many processes this one is, by the variables its launcher set. Needs neither MPI nor TensorFlow.

Launchers are asked from the inside out: `habana-tf run`, `horovodrun`, `torchrun` and `deepspeed` before the `mpirun`
or `srun` they may run under. One launcher gives all four numbers, so that they fit together. SLURM counts only inside a
job step (`srun`): in a batch script or under `salloc` its variables describe the allocation, not this process.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from habana_tf import settings


@dataclass(frozen=True)
class Ranks:
    """rank of size processes, local_rank of local_size on this host; source: the variable the local rank is from."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    source: str


class RankError(RuntimeError):
    """The variables of a launcher contradict each other."""


def launched() -> Ranks | None:
    """What the launcher says, or None when no launcher started this process.

    Raises SettingError for a variable that is no number, RankError for numbers that do not fit together.
    """
    s = settings
    launchers = (
        (s.HABANA_SIM_RANK, s.HABANA_SIM_SIZE, s.HABANA_SIM_LOCAL_RANK, s.HABANA_SIM_LOCAL_SIZE),
        (s.HOROVOD_RANK, s.HOROVOD_SIZE, s.HOROVOD_LOCAL_RANK, s.HOROVOD_LOCAL_SIZE),
        (s.RANK, s.WORLD_SIZE, s.LOCAL_RANK, s.LOCAL_WORLD_SIZE),
        (s.RANK, s.WORLD_SIZE, s.LOCAL_RANK, s.LOCAL_SIZE),
        (s.OMPI_COMM_WORLD_RANK, s.OMPI_COMM_WORLD_SIZE, s.OMPI_COMM_WORLD_LOCAL_RANK, s.OMPI_COMM_WORLD_LOCAL_SIZE),
        (s.PMI_RANK, s.PMI_SIZE, s.MPI_LOCALRANKID, s.MPI_LOCALNRANKS),
    )
    for variables in launchers:
        values = [variable.get() for variable in variables]
        rank, size, local_rank, local_size = values
        if rank is not None and size is not None and local_rank is not None and local_size is not None:
            return _checked(Ranks(rank, size, local_rank, local_size, variables[2].name))
    return _slurm()


def here() -> Ranks:
    """The ranks of this process; without a launcher it is alone. Raises what `launched` raises."""
    return launched() or Ranks(0, 1, 0, 1, "")


def tell() -> None:
    """Sets RANK, WORLD_SIZE and LOCAL_RANK where the launcher does not (mpirun, srun): by them libraries find out that
    they are one of many processes, and ask for MASTER_ADDR: a job of one (`mpirun -n 1`) is told nothing. What is set
    stays. Raises what `launched` raises."""
    found = launched()
    if found is not None and found.size > 1:
        s = settings
        for variable, number in ((s.RANK, found.rank), (s.WORLD_SIZE, found.size), (s.LOCAL_RANK, found.local_rank)):
            os.environ.setdefault(variable.name, str(number))


def _slurm() -> Ranks | None:
    rank, size = settings.SLURM_PROCID.get(), settings.SLURM_STEP_NUM_TASKS.get()
    local_rank, node = settings.SLURM_LOCALID.get(), settings.SLURM_NODEID.get()
    per_node = settings.SLURM_STEP_TASKS_PER_NODE.get()
    if rank is None or size is None or local_rank is None or node is None or node >= len(per_node):
        return None
    return _checked(Ranks(rank, size, local_rank, per_node[node], settings.SLURM_LOCALID.name))


def _checked(ranks: Ranks) -> Ranks:
    if ranks.rank < ranks.size and ranks.local_rank < ranks.local_size <= ranks.size:
        return ranks
    raise RankError(
        f"the launcher's variables contradict each other: rank {ranks.rank} of {ranks.size}, local rank "
        f"{ranks.local_rank} of {ranks.local_size} (by {ranks.source} and its neighbours): start the program with "
        "mpirun, horovodrun, torchrun or srun, and set none of these by hand"
    )
