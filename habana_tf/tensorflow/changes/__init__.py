"""All that this package changes in TensorFlow and Keras while HPU is loaded: one list, and nothing elsewhere.

`habana-tf info --changes` prints it. HABANA_SIM_CHANGES leaves changes out, to find out which of them is to blame.
"""

from __future__ import annotations

from habana_tf.host_changes import change
from habana_tf.host_changes.change import ChangeError, Group
from habana_tf.tensorflow.changes import (
    context,
    eager_kernels,
    fork,
    graph_devices,
    keras3,
    strategies,
    tracebacks,
    xla,
)
from habana_tf.tensorflow.changes.keras2 import jit, recurrent, tracing

__all__ = ["ALL", "ChangeError", "install", "undo", "wanted"]

ALL: tuple[Group, ...] = (
    eager_kernels.EAGER_KERNELS,
    context.SYNCHRONOUS,
    context.OPTIMIZERS,
    xla.XLA,
    fork.FORK,
    graph_devices.GRAPH_DEVICES,
    strategies.STRATEGIES,
    eager_kernels.EAGER_REPORT,
    tracebacks.TRACEBACKS,
    jit.JIT,
    recurrent.RECURRENT,
    tracing.TRACING,
    keras3.JIT,
    keras3.WORKERS,
)
"""Every change, in the order in which they are made; Horovod's are in `horovod_compat`."""


def wanted() -> list[Group]:
    """Those that HABANA_SIM_CHANGES leaves. Raises SettingError for a name that is none of theirs."""
    return change.wanted(ALL, change.TENSORFLOW)


def install(started: bool) -> None:
    """Makes the changes that are wanted, or has them made when their modules are imported.

    started: whether TensorFlow had run ops before. Raises ChangeError and SettingError.
    """
    change.install_wanted(ALL, wanted(), started)


def undo() -> None:
    """Gives TensorFlow and Keras all their own values back."""
    for group in reversed(ALL):
        change.undo(group)
