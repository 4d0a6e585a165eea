"""`multinode_helpers`: rank and number of processes.

Habana's: rank and size as MPI knows them, for scripts with or without Horovod; rank 0 of 1 without `mpirun`.
Here: the variables of `mpirun`, `horovodrun`, `srun` or `habana-tf run`, whichever started the process. Needs neither
MPI nor Horovod nor TensorFlow, and a process that no launcher started is rank 0 of 1.
"""

from __future__ import annotations

import os
from typing import Literal, overload

from habana_tf.hardware import ranks

__all__ = ["comm_local_rank", "comm_local_size", "comm_rank", "comm_size"]

_is_set_up = False


@overload
def comm_rank(check_available: Literal[False] = False) -> int: ...
@overload
def comm_rank(check_available: bool) -> int | None: ...
def comm_rank(check_available: bool = False) -> int | None:
    """The rank of this process among all; with `check_available`, None where no launcher started it."""
    return _of("rank", check_available)


@overload
def comm_size(check_available: Literal[False] = False) -> int: ...
@overload
def comm_size(check_available: bool) -> int | None: ...
def comm_size(check_available: bool = False) -> int | None:
    """The number of processes; with `check_available`, None where no launcher started this one."""
    return _of("size", check_available)


@overload
def comm_local_rank(check_available: Literal[False] = False) -> int: ...
@overload
def comm_local_rank(check_available: bool) -> int | None: ...
def comm_local_rank(check_available: bool = False) -> int | None:
    """The rank of this process among those on its host; with `check_available`, None where no launcher started it."""
    return _of("local_rank", check_available)


@overload
def comm_local_size(check_available: Literal[False] = False) -> int: ...
@overload
def comm_local_size(check_available: bool) -> int | None: ...
def comm_local_size(check_available: bool = False) -> int | None:
    """The number of processes on this host; with `check_available`, None where no launcher started this one."""
    return _of("local_size", check_available)


def _of(number: str, check_available: bool) -> int | None:
    found = ranks.launched() if check_available else ranks.here()
    value: int | None = getattr(found, number, None)
    return value


def _setup_env_for_multinode(required: bool = False) -> None:
    """Sets what Habana's module sets in the environment of each of several processes, once; for one process nothing.

    ID (the local rank) and HLS_MODULE_ID (the card of that rank) where they are not set, `rank_<r>_` at the end of
    TF_RANK_PREFIX and HBN_TF_GRAPH_PREFIX, and of TF_DUMP_GRAPH_PREFIX where that is set, so that each rank has a
    directory of its own for its graphs. `load_habana_module()` needs none of it: scripts call this by itself.

    required: taken and without effect, there is no topology file to be missed. Raises hardware.cards.CardError for a
    rank without a card.
    """
    global _is_set_up
    if _is_set_up or comm_size() <= 1:
        return
    _is_set_up = True
    from habana_tf.hardware.cards import choice

    os.environ.setdefault("ID", str(comm_local_rank()))
    os.environ.setdefault("HLS_MODULE_ID", str(choice().cards[0].module_id))
    for name in ("TF_RANK_PREFIX", "HBN_TF_GRAPH_PREFIX", "TF_DUMP_GRAPH_PREFIX"):
        before = os.environ.get(name, "")
        if before or name != "TF_DUMP_GRAPH_PREFIX":
            os.environ[name] = f"{before}rank_{comm_rank()}_"
