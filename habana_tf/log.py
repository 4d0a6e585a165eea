"""The logger `habana_tf`: messages go to stderr, from the level of HABANA_SIM_LOG up.

A logger that the program has configured itself stays as it is. Names of files and other foreign texts are escaped
(`escaped`) on their way to the terminal; line breaks of a message are kept.
"""

from __future__ import annotations

import logging

from habana_tf import settings
from habana_tf.files.escaped import escaped

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
