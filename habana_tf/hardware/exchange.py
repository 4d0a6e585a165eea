"""The ranks of one host meet in shared memory, through which they sum (kernels/runtime/exchange.h).

How: the ranks meet once, by collectives that they have already: each says where it is (host, simulated machine, name
space of processes, user). When all are in the same place, rank 0 makes memory without a name, and the others join it
through rank 0's descriptor: nothing is left behind, however and whenever they end.

Invariant: all ranks of a group have joined its exchange, or none uses it.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from habana_tf.hardware import machine

_log = logging.getLogger("habana_tf")

LONGER = "CommunicationOptions(timeout_seconds=...)"
"""With what a user of HPUStrategy sets the time that a rank waits for others."""


def meet(
    gather: Callable[..., Any], rank: int, size: int, job: str, task: int, instead: str, longer: str = LONGER
) -> int | None:
    """The number of the exchange that all ranks have joined, or None where they cannot share memory.

    gather: given numbers, a matrix with those of one rank per row. job, task: how errors name this rank. instead: in
    a warning, what they use where memory is missing. longer: in errors, with what the user sets a timeout.
    """
    from habana_tf._native import _bridge

    met = gather(_place(), os.getpid())
    if not np.all(met[:, 0] == met[0, 0]):
        return None
    exchange, descriptor, trouble = None, -1, ""
    try:
        if rank == 0:
            exchange, descriptor = _bridge.make_exchange(size, job, task, longer)
    except RuntimeError as error:
        trouble = str(error)
    try:
        made = int(gather(descriptor)[0, 0])
        try:
            if rank != 0 and made >= 0:
                exchange = _bridge.join_exchange(f"/proc/{met[0, 1]}/fd/{made}", rank, size, job, task, longer)
        except RuntimeError as error:
            trouble = str(error)
        joined = bool(np.all(gather(int(exchange is not None))))
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    if trouble:
        _log.warning("ranks of one host exchange through %s, which is slow: %s", instead, trouble)
    return exchange if joined else None


def _place() -> int:
    """A number that is equal for processes of one simulated machine that can share memory and see each other's ids."""
    host = Path("/proc/sys/kernel/random/boot_id").read_text()
    what = (host, os.getuid(), os.stat("/proc/self/ns/pid").st_ino, machine.directory())
    return int.from_bytes(hashlib.sha256(repr(what).encode()).digest()[:8], "little", signed=True)
