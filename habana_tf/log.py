"""Where the messages of habana_tf go: the logger `habana_tf`, on stderr, from the level of HABANA_SIM_LOG up.

A program that configures the logger itself keeps what it configured. Names of files and the like reach the terminal
escaped (`escaped`); a message of several lines keeps them.
"""

from __future__ import annotations

import logging

from habana_tf import settings
from habana_tf.files.escaped import escaped

__all__ = ["configure", "level"]

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "off": logging.CRITICAL + 1,
}


def level() -> int:
    """The least level that is shown, as a number of `logging`."""
    return _LEVELS[settings.HABANA_SIM_LOG.get()]


def configure() -> None:
    """Gives the logger a handler, once."""
    logger = logging.getLogger("habana_tf")
    if logger.handlers or logger.level != logging.NOTSET:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter("habana_tf: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(level())
    logger.propagate = False


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return escaped(super().format(record), keep="\n\t")
