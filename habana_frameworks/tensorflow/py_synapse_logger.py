"""`py_synapse_logger`: the logger of SynapseAI's calls.

Habana's: commands to a logger that wrote the calls of SynapseAI to a file, with or without a trace of the hardware.
Here: no SynapseAI runs, so there is nothing to log. The module can be imported, as scripts do at their top, but none of
its functions pretends to trace: each call is an error that says what to use.
"""

from __future__ import annotations

from typing import NoReturn

__all__ = ["NotSimulated", "command", "explain", "put_log", "start_hw_profile", "stop_hw_profile"]


class NotSimulated(NotImplementedError):
    """Something of a real machine that this simulation does not have."""


def explain(what: str) -> str:
    """The sentence that tells what to use in place of a trace."""
    return (
        f"{what} traces the calls of SynapseAI, and no SynapseAI runs here. Use TensorFlow's profiler "
        "(tf.profiler.experimental.start(directory), or Keras' TensorBoard(profile_batch=...)), "
        "habana_tf.recompilation_report() for what was compiled when, habana_tf.placement_report() for what ran where"
    )


def command(text: str) -> NoReturn:
    """Commands such as "restart" or "file_name=...". Raises NotSimulated."""
    raise NotSimulated(explain(f"py_synapse_logger.command({text!r})"))


def start_hw_profile() -> NoReturn:
    """Raises NotSimulated."""
    raise NotSimulated(explain("py_synapse_logger.start_hw_profile()"))


def stop_hw_profile() -> NoReturn:
    """Raises NotSimulated."""
    raise NotSimulated(explain("py_synapse_logger.stop_hw_profile()"))


def put_log(message: str, level: int = 1) -> NoReturn:
    """Raises NotSimulated."""
    raise NotSimulated(explain("py_synapse_logger.put_log()"))
