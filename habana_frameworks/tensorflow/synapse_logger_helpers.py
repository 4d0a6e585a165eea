"""`synapse_logger_helpers`: a session hook that captures some steps.

Habana's: `SynapseLoggerHook` switched the logger of SynapseAI's calls on for the steps it was given, and
`synapse_logger_init()` prepared it. Scripts call both whether or not a trace is wanted; HABANA_SYNAPSE_LOGGER decides.
Here: the same, with habana_tf's own timeline (docs/timeline.md) in the files. With the variable unset both do nothing,
and the hook says so once when its steps come. "all" (and "true") captures the whole process, "range" and "range_hw" the
steps of the hook; the card's engines are in every file, as predicted.
"""

from __future__ import annotations

import atexit
import logging
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from habana_tf import settings
from habana_tf.card.timeline.capture import Capture, file_of_rank, file_of_step

__all__ = ["SynapseLoggerHook", "synapse_logger_init"]

_log = logging.getLogger("habana_tf.synapse_logger_helpers")
_whole = Capture()


def synapse_logger_init() -> None:
    """Captures the whole process, once, if HABANA_SYNAPSE_LOGGER=all; it is written at exit to
    worker<rank>.local.synapse_log."""
    if settings.HABANA_SYNAPSE_LOGGER.get() == "all" and not _whole.running:
        _whole.begin()
        atexit.register(_finish)


def _finish() -> None:
    try:
        _log.info("HABANA_SYNAPSE_LOGGER: the capture is in %s; ui.perfetto.dev shows it", _whole.end(file_of_rank()))
    except OSError as error:
        _log.warning("HABANA_SYNAPSE_LOGGER: the capture could not be written: %s", error)


class SynapseLoggerHook(tf.compat.v1.train.SessionRunHook):
    """A session run hook with the arguments of Habana's.

    steps_to_log: a step or several, counted from 0; each is written to worker_<rank>_step_<step>.local.synapse_log,
    unless HABANA_SYNAPSE_LOGGER is off. profile_hw: no effect, the card's engines are always there.
    """

    def __init__(self, steps_to_log: int | Iterable[int] | None = None, profile_hw: bool = False) -> None:
        super().__init__()
        synapse_logger_init()
        steps = () if steps_to_log is None else [steps_to_log] if isinstance(steps_to_log, int) else steps_to_log
        self._steps = frozenset(steps)
        self._step = 0
        self._said = False
        self._capture = Capture()

    def before_run(self, run_context: Any) -> None:
        """A step of those to be logged begins."""
        if self._step in self._steps:
            if settings.HABANA_SYNAPSE_LOGGER.get() != "off":
                self._capture.begin()
            elif not self._said:
                self._said = True
                _log.warning("SynapseLoggerHook logs nothing: HABANA_SYNAPSE_LOGGER is not set (all or range)")

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """It ends, and is written. Raises OSError."""
        if self._capture.running:
            self._capture.end(file_of_step(self._step))
        self._step += 1
