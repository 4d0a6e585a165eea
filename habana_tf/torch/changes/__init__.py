"""All that this package changes in PyTorch and Lightning: one list, and nothing elsewhere.

Each stands for something that PyTorch asks only of a backend in C++; what it does for other devices stays as it was.
`habana-tf info --changes --framework torch` prints it. HABANA_SIM_CHANGES leaves changes out.
"""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.host_changes import change
from habana_tf.host_changes.change import PYTORCH, ChangeError, Group
from habana_tf.torch.changes import (
    accelerator,
    compiling,
    data_parallel,
    lightning,
    memory,
    modules,
    profiling,
    storages,
)

__all__ = ["ALL", "AT_LOAD", "ChangeError", "install", "wanted"]

AT_LOAD: tuple[Group, ...] = (
    memory.GENERATOR,
    memory.PINNED,
    memory.COPIES,
    modules.AUTOCAST,
    modules.TRANSFORMERS,
    modules.PRINTING,
    profiling.PROFILER,
    accelerator.ACCELERATOR,
    compiling.RECURRENT,
    compiling.STRIDES,
    storages.SIZES,
)
"""Made when the device is loaded."""
ALL: tuple[Group, ...] = (*AT_LOAD, *data_parallel.GROUPS, *lightning.GROUPS)
"""These, those that the backend hccl makes, and those of habana_tf.torch.lightning."""


def wanted() -> list[Group]:
    """Those that HABANA_SIM_CHANGES leaves. Raises SettingError for a name that is none of theirs."""
    return change.wanted(ALL, PYTORCH)


def install(groups: Sequence[Group]) -> None:
    """Makes those that are wanted. Raises ChangeError and SettingError."""
    change.install_wanted(groups, wanted())
