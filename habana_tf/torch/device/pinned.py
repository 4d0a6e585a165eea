"""Pinned memory of the host: `tensor.pin_memory()`, `DataLoader(pin_memory=True)`.

A real card can read pinned memory directly. The simulated card is in host memory and can read all of it. So pinning a
tensor copies it, as in PyTorch, and remembers the copy for `is_pinned`.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

_MOST = 1024
"""How many storages are remembered before those that are gone are removed."""


def _done(t: torch.Tensor, stream: Any) -> None:
    """`record_stream`. Does nothing: streams have no work left when memory is reused."""


class Pinned:
    """The kernels for pinned memory that PyTorch has only for devices with an allocator of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._storages: dict[int, StorageWeakRef] = {}
        self._own: Any = None
        self._of_cpu: Any = None

    def register(self) -> None:
        """Registers `record_stream` for tensors of the device."""
        self._own = torch.library.Library("aten", "IMPL")
        self._own.impl("record_stream", _done, "PrivateUse1")

    def on_cpu(self) -> None:
        """Registers `pin_memory` and `is_pinned` for tensors of the CPU."""
        self._of_cpu = torch.library.Library("aten", "IMPL")
        self._of_cpu.impl("is_pinned", self._is_pinned, "CPU")
        self._of_cpu.impl("_pin_memory", self._pin, "CPU")

    def off_cpu(self) -> None:
        """Takes these two back."""
        self._of_cpu._destroy()

    def _pin(self, t: torch.Tensor, device: Any = None) -> torch.Tensor:
        made = t.clone()
        self.remember(made)
        return made

    def remember(self, t: torch.Tensor) -> None:
        """Remembers the memory of a tensor as pinned."""
        storage = t.untyped_storage()
        with self._lock:
            if len(self._storages) >= _MOST:
                self._storages = {k: ref for k, ref in self._storages.items() if not ref.expired()}
            self._storages[storage.data_ptr()] = StorageWeakRef(storage)

    def _is_pinned(self, t: torch.Tensor, device: Any = None) -> bool:
        with self._lock:
            ref = self._storages.get(t.untyped_storage().data_ptr())
            return ref is not None and not ref.expired()


default = Pinned()
"""That of this process."""
