"""`synapse_logger_helpers`: a session hook that traces the calls of SynapseAI during some steps.

Habana's: `SynapseLoggerHook` switched the logger on for the steps it was given, and `synapse_logger_init()` prepared
it. Scripts call both whether or not a trace is wanted; HABANA_SYNAPSE_LOGGER decides.
Here: no SynapseAI runs. With the variable unset both do what they do on a card then: nothing, and the hook says so once
when its steps come. With it set both are an error that names what there is instead, because a trace that is asked for
and stays empty would mislead.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from habana_tf import settings

from .py_synapse_logger import NotSimulated, explain

__all__ = ["SynapseLoggerHook", "synapse_logger_init"]

_log = logging.getLogger("habana_tf.synapse_logger_helpers")


def synapse_logger_init() -> None:
    """Starts the logger if HABANA_SYNAPSE_LOGGER asks for one, which raises NotSimulated."""
    wanted = settings.HABANA_SYNAPSE_LOGGER.get()
    if wanted != "off":
        raise NotSimulated(explain(f"HABANA_SYNAPSE_LOGGER={wanted}"))


class SynapseLoggerHook(tf.compat.v1.train.SessionRunHook):
    """A session run hook with the arguments of Habana's.

    steps_to_log: a step or several, counted from 0; profile_hw: would add a hardware trace.
    Raises NotSimulated when HABANA_SYNAPSE_LOGGER asks for a trace.
    """

    def __init__(self, steps_to_log: int | Iterable[int] | None = None, profile_hw: bool = False) -> None:
        super().__init__()
        synapse_logger_init()
        steps = () if steps_to_log is None else [steps_to_log] if isinstance(steps_to_log, int) else steps_to_log
        self._steps = frozenset(steps)
        self._step = 0
        self._said = False

    def before_run(self, run_context: Any) -> None:
        """Says once, at the first step to be logged, that nothing is."""
        if self._step in self._steps and not self._said:
            self._said = True
            _log.warning("SynapseLoggerHook logs nothing: HABANA_SYNAPSE_LOGGER is not set. %s", explain("The hook"))
        self._step += 1
