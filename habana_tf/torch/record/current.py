"""Which device the module `torch.hpu` is about."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from habana_tf.hardware import claim, ranks
from habana_tf.settings import HLS_MODULE_ID

if TYPE_CHECKING:
    from habana_tf.hardware.chips import Chip
    from habana_tf.torch.memory.storage import Memory
    from habana_tf.torch.record.recorder import Recorder

_attached: tuple[Memory, Recorder, Chip] | None = None
_in_bad_fork = False


def attach(memory: Memory, recorder: Recorder, chip: Chip) -> None:
    """Says which device the module is about."""
    global _attached
    _attached = memory, recorder, chip
    os.register_at_fork(after_in_child=_forked)


def now() -> tuple[Memory, Recorder, Chip]:
    """The device, with the memory of tensors that are gone taken back. Raises RuntimeError where none is loaded."""
    if _attached is None:
        raise RuntimeError("the device hpu is not loaded: import habana_frameworks.torch")
    if not _in_bad_fork:
        _attached[1].collect()
    return _attached


def is_loaded() -> bool:
    """Whether there is a device."""
    return _attached is not None


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
    assert _attached is not None
    memory, recorder, _ = _attached
    if memory.used:
        _in_bad_fork = True
        for owner, names in ((memory, ("tensor", "workspace")), (recorder, ("record", "settle", "flush"))):
            for name in names:
                setattr(owner, name, _refuse)


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError(
        "Cannot re-initialize HPU in forked subprocess. To use HPU with multiprocessing, you must use the 'spawn' "
        "start method"
    )
