"""What a program says of values that are out of range, and what it shall do about them."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

SETTING = "HABANA_SIM_CHECK_INDICES"


@contextmanager
def told() -> Iterator[list[str]]:
    """The package's warnings meanwhile."""

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            texts.append(record.getMessage())

    texts: list[str] = []
    handler, log = Kept(logging.WARNING), logging.getLogger("habana_tf")
    log.addHandler(handler)
    try:
        yield texts
    finally:
        log.removeHandler(handler)


@contextmanager
def setting(value: str) -> Iterator[None]:
    """HABANA_SIM_CHECK_INDICES, for programs that are compiled meanwhile."""
    os.environ[SETTING] = value
    try:
        yield
    finally:
        del os.environ[SETTING]
