"""Rank and number of processes, by the variables of `mpirun`, `horovodrun`, `srun` or `habana-tf run`.

Needs neither MPI nor Horovod nor TensorFlow. A process that no launcher started is rank 0 of 1.
"""

from __future__ import annotations

from .hardware import ranks


def comm_rank() -> int:
    """The rank of this process among all."""
    return _ranks().rank


def comm_size() -> int:
    """The number of processes."""
    return _ranks().size


def comm_local_rank() -> int:
    """The rank of this process among those on its host."""
    return _ranks().local_rank


def comm_local_size() -> int:
    """The number of processes on this host."""
    return _ranks().local_size


def _ranks() -> ranks.Ranks:
    return ranks.launched() or ranks.Ranks(0, 1, 0, 1, "")
