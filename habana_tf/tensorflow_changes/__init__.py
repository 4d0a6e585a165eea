"""All that this package changes in TensorFlow and Keras while HPU is loaded: one list, and nothing elsewhere.

`habana-tf info --changes` prints it. HABANA_SIM_CHANGES leaves changes out, to find out which of them is to blame.
"""

from __future__ import annotations

import logging

from habana_tf import settings
from habana_tf.tensorflow_changes import (
    change,
    context,
    eager_kernels,
    fork,
    keras3,
    strategies,
    tracebacks,
    xla,
)
from habana_tf.tensorflow_changes.change import ChangeError, Group
from habana_tf.tensorflow_changes.keras2 import jit, recurrent, tracing, updates

__all__ = ["ALL", "ChangeError", "install", "undo", "wanted"]

_log = logging.getLogger("habana_tf")

ALL: tuple[Group, ...] = (
    eager_kernels.EAGER_KERNELS,
    context.SYNCHRONOUS,
    context.OPTIMIZERS,
    xla.XLA,
    fork.FORK,
    strategies.STRATEGIES,
    eager_kernels.EAGER_REPORT,
    tracebacks.TRACEBACKS,
    jit.JIT,
    recurrent.RECURRENT,
    tracing.TRACING,
    updates.UPDATES,
    keras3.JIT,
    keras3.WORKERS,
)
"""Every change, in the order in which they are made; Horovod's are in `horovod_compat`."""


def wanted() -> list[Group]:
    """Those that HABANA_SIM_CHANGES leaves. Raises SettingError for a name that is none of theirs."""
    text = (settings.HABANA_SIM_CHANGES.get() or "on").replace(" ", "")
    if text in ("on", "off"):
        return list(ALL) if text == "on" else []
    names = text.split(",")
    known = {group.name for group in ALL}
    wrong = [name for name in names if name.removeprefix("-") not in known]
    if wrong or len({name[:1] == "-" for name in names}) > 1:
        raise settings.SettingError(
            f"HABANA_SIM_CHANGES={text}: on, off, names of the changes to make, or each with a minus to leave them out "
            f"(`habana-tf info --changes` lists them); {wrong[0] if wrong else 'both kinds'} will not do"
        )
    return [group for group in ALL if group.name in names or (text[0] == "-" and f"-{group.name}" not in names)]


def install(started: bool) -> None:
    """Makes the changes that are wanted, or has them made when their modules are imported.

    started: whether TensorFlow had run ops before. Raises ChangeError and SettingError.
    """
    chosen = wanted()
    for group in chosen:
        change.install(group, started)
    left_out = [group for group in ALL if group not in chosen]
    if left_out:
        _log.warning("HABANA_SIM_CHANGES leaves out %s", ", ".join(group.name for group in left_out))
    for group in left_out:
        if group.numbers:
            _log.warning("without %s %s", group.name, group.why)


def undo() -> None:
    """Gives TensorFlow and Keras all their own values back."""
    for group in reversed(ALL):
        change.undo(group)
