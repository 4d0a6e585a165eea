"""Storages of the device that are resized, as FSDP does to free a gathered weight and to take memory for it again.

PyTorch leaves that to an allocator in C++. Here a storage keeps its addresses: to make it smaller is to note the size,
and to make it empty gives its memory back to the card until it is written again. The note is on the storage's Python
object, which lives as long as the storage does.

FullyShardedDataParallel, the older of PyTorch's two, runs its backward pass on streams that a device in Python does not
have, which ends the process; it is refused when it frees its first weight. `fully_shard` needs none.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from habana_tf.torch.device import load
from habana_tf.torch.recording import Recorder

_SIZE = "_habana_tf_size"


def register() -> None:
    """Has `resize_`, `nbytes` and `size` of a storage know the device."""
    recorder = load().recorder
    kind = torch.UntypedStorage
    resize, nbytes = kind.resize_, kind.nbytes

    @functools.wraps(resize)
    def resize_(self: Any, size: int) -> Any:
        if self.device.type != "hpu":
            return resize(self, size)
        if size > nbytes(self):
            raise RuntimeError("Trying to resize storage that is not resizable")
        if size == 0 and self.nbytes():
            _free(recorder, self.data_ptr())
        setattr(self, _SIZE, size)
        return self

    def own_nbytes(self: Any) -> int:
        noted = self.__dict__.get(_SIZE)
        return nbytes(self) if noted is None else int(noted)

    typed = torch.TypedStorage._resize_

    @functools.wraps(typed)
    def _resize_(self: Any, size: int) -> Any:
        if self._untyped_storage.device.type == "hpu":
            raise NotImplementedError(
                "FullyShardedDataParallel needs streams that hpu does not have: use torch.distributed.fsdp.fully_shard"
            )
        return typed(self, size)

    setattr(torch.TypedStorage, "_resize_", _resize_)  # noqa: B010  # mypy refuses the plain assignment
    for name, made in (("resize_", resize_), ("nbytes", own_nbytes), ("size", own_nbytes)):
        setattr(kind, name, made)


def _free(recorder: Recorder, address: int) -> None:
    """Gives the memory of a storage back to the card, once what was recorded has read it."""
    with recorder.lock:
        recorder.flush()
        recorder.memory.discard(recorder.memory.blocks[address])
