"""`py_synapse_logger`: captures of what runs when.

Habana's: commands to a logger that wrote the calls of SynapseAI to a file as trace events, with or without a trace of
the hardware.
Here: no SynapseAI runs; a capture is habana_tf's own timeline (docs/timeline.md), in the same kind of file: launches on
the host as they were, and the card's engines as predicted, whether or not a trace of the hardware was asked for.
"""

from __future__ import annotations

import logging

from habana_tf.card.timeline.capture import Capture, file_of_rank

__all__ = ["NotSimulated", "command", "put_log", "start_hw_profile", "stop_hw_profile"]

_log = logging.getLogger("habana_tf.py_synapse_logger")
_capture = Capture()
_file: str | None = None


class NotSimulated(NotImplementedError):
    """Something of a real machine that this simulation does not have."""


def command(text: str) -> None:
    """A command to the logger.

    "file_name=PATH": where the next capture is written; worker<rank>.local.synapse_log without. "restart": a capture
    begins. "stop_data_capture" and "disable": it ends and is written; nothing where none runs. "category_mask=...":
    accepted, a capture is always whole. Raises NotSimulated for other commands, and OSError for a file that cannot be
    written.
    """
    global _file
    word, _, value = text.partition("=")
    if word == "file_name" and value:
        _file = value
    elif text == "restart":
        _capture.begin()
    elif text in ("stop_data_capture", "disable"):
        if _capture.running:
            _write()
    elif word != "category_mask":
        raise NotSimulated(
            f"py_synapse_logger.command({text!r}) is not known here: there are file_name=, category_mask=, restart, "
            "stop_data_capture and disable"
        )


def _write() -> None:
    path = _capture.end(_file or file_of_rank())
    _log.info("the capture is in %s; ui.perfetto.dev shows it", path)


def start_hw_profile() -> None:
    """A capture begins, if none runs: the card's engines are in each."""
    if not _capture.running:
        _capture.begin()


def stop_hw_profile() -> None:
    """The capture ends and is written; nothing where none runs. Raises OSError."""
    command("stop_data_capture")


def put_log(message: str, level: int = 1) -> None:
    """A mark in the capture that runs, if one does; `level` has no effect."""
    _capture.mark(message)
