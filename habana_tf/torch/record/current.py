"""The recorder of this process, which everything that records, flushes or asks about memory gets from here, and its
card."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from habana_tf.hardware import claim, ranks
from habana_tf.settings import HLS_MODULE_ID

if TYPE_CHECKING:
    from habana_tf.hardware.chips import Chip
    from habana_tf.torch.memory.storage import Memory
    from habana_tf.torch.record.recorder import Recorder

_recorder: Recorder | None = None
_chip: Chip | None = None
_in_bad_fork = False


def attach(recorder: Recorder, chip: Chip) -> None:
    """Makes it the recorder of this process, whose card is such a chip."""
    global _recorder, _chip
    _recorder, _chip = recorder, chip
    os.register_at_fork(after_in_child=_forked)


def recorder() -> Recorder:
    """What records ops now: the device's recorder, or another within `recorded_by`. Raises RuntimeError where none is
    loaded."""
    if _recorder is None:
        raise RuntimeError("the device hpu is not loaded: import habana_frameworks.torch")
    return _recorder


@contextmanager
def recorded_by(other: Recorder) -> Iterator[None]:
    """Within it `other` records what the device's recorder would."""
    global _recorder
    before, _recorder = recorder(), other
    try:
        yield
    finally:
        _recorder = before


@contextmanager
def together() -> Iterator[None]:
    """In eager mode, too, has the ops within become one program, which runs when another op follows or the host reads
    what they write. Without a device it does nothing."""
    with contextlib.nullcontext() if _recorder is None else _recorder.together():
        yield


def memory() -> Memory:
    """The memory of tensors, after that of tensors that are gone was taken back."""
    found = recorder()
    if not _in_bad_fork:
        found.memory.collect()
    return found.memory


def chip() -> Chip:
    """What the card is."""
    assert _chip is not None
    return _chip


def is_loaded() -> bool:
    """Whether there is a device."""
    return _recorder is not None


def in_bad_fork() -> bool:
    """Whether this process was forked from one that used the device, and so must not use it."""
    return _in_bad_fork


def index(device: Any) -> int:
    """The number of a device: 0, or that of the card which this process was told to take. Raises ValueError for one of
    another kind and RuntimeError for another number."""
    found = 0 if device is None else device if isinstance(device, int) else torch.device(device)
    if isinstance(found, torch.device):
        if found.type != "hpu":
            raise ValueError(f"Expected a hpu device, but got: {found}")
        found = found.index or 0
    if found != 0 and found not in own_numbers():
        raise RuntimeError(f"invalid device ordinal {found}: a process has one card, which is hpu:0")
    return found


def own_numbers() -> list[int]:
    """Numbers by which scripts of many processes call this one's card: its module id and the process's local rank."""
    held = claim.held_card()
    launched = ranks.launched()
    told = HLS_MODULE_ID.get()
    found = [held.module_id if held is not None else told, launched.local_rank if launched is not None else None]
    return [number for number in found if number is not None]


def _forked() -> None:
    """In a forked child: a card has one process, and the threads that run programs are not in this one."""
    global _in_bad_fork
    found = recorder()
    if found.memory.used:
        _in_bad_fork = True
        for owner, names in ((found.memory, ("tensor", "workspace")), (found, ("record", "settle", "flush"))):
            for name in names:
                setattr(owner, name, _refuse)


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError(
        "Cannot re-initialize HPU in forked subprocess. To use HPU with multiprocessing, you must use the 'spawn' "
        "start method"
    )
