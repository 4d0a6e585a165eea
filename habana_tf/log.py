"""Where the messages of habana_tf go: the logger `habana_tf`, on stderr, from the level of HABANA_SIM_LOG up.

A program that configures the logger itself keeps what it configured.
"""

from __future__ import annotations

import logging

from . import settings

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
    handler.setFormatter(logging.Formatter("habana_tf: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(level())
    logger.propagate = False
