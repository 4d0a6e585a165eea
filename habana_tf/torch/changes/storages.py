"""Storages of the device that are resized, as FSDP does to free a gathered weight and to take memory for it again.

PyTorch leaves that to an allocator in C++. Here a storage keeps its addresses: to make it smaller is to note the size,
and to make it empty gives its memory back to the card until it is written again. The note is on the storage's Python
object, which lives as long as the storage does.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from habana_tf.host_changes.change import PYTORCH, Change, Group
from habana_tf.torch.record import current

_SIZE = "_habana_tf_size"
_nbytes = torch.UntypedStorage.nbytes


def _resized(original: Any) -> Any:
    @functools.wraps(original)
    def resize_(self: Any, size: int) -> Any:
        if self.device.type != "hpu":
            return original(self, size)
        if size > _nbytes(self):
            raise RuntimeError("Trying to resize storage that is not resizable")
        if size == 0 and self.nbytes():
            _free(self.data_ptr())
        elif size and not self.nbytes():
            memory = current.recorder().memory
            memory.refilled(memory.blocks[self.data_ptr()])
        setattr(self, _SIZE, size)
        return self

    return resize_


def _noted(original: Any) -> Any:
    def nbytes(self: Any) -> int:
        noted = self.__dict__.get(_SIZE)
        return original(self) if noted is None else int(noted)

    return nbytes


def _free(address: int) -> None:
    """Gives the memory of a storage back to the card, once what was recorded has read it."""
    recorder = current.recorder()
    with recorder.lock:
        recorder.flush()
        recorder.memory.discard(recorder.memory.blocks[address])


SIZES = Group(
    "storage_sizes", "`storage.resize_` raises, by which FSDP frees gathered weights",
    (
        Change("torch", "UntypedStorage.resize_", _resized),
        Change("torch", "UntypedStorage.nbytes", _noted),
        Change("torch", "UntypedStorage.size", _noted),
        Change("torch", "UntypedStorage.__len__", _noted),
    ), framework=PYTORCH,
)  # fmt: skip
