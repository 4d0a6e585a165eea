"""Pinned memory of the host: `tensor.pin_memory()`, `DataLoader(pin_memory=True)`.

A card reads pinned memory without a copy in between. The simulated card is memory of the host and reads all of it so:
to pin a tensor is to copy it, as PyTorch does, and to remember that `is_pinned` holds for the copy.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

_MOST = 1024
"""Remembered storages from which those that are gone are looked for."""


def _done(t: torch.Tensor, stream: Any) -> None:
    """Nothing: a stream's work is done when memory is given to others."""


class Pinned:
    """The kernels of the CPU that PyTorch lacks where a device has no allocator of pinned memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._storages: dict[int, StorageWeakRef] = {}
        self._own: Any = None
        self._of_cpu: Any = None

    def register(self) -> None:
        """Registers that a stream uses a tensor."""
        self._own = torch.library.Library("aten", "IMPL")
        self._own.impl("record_stream", _done, "PrivateUse1")

    def on_cpu(self) -> None:
        """Registers kernels of the CPU, which PyTorch has for backends in C++."""
        self._of_cpu = torch.library.Library("aten", "IMPL")
        self._of_cpu.impl("is_pinned", self._is_pinned, "CPU")
        self._of_cpu.impl("_pin_memory", self._pin, "CPU")

    def off_cpu(self) -> None:
        """Takes these back."""
        self._of_cpu._destroy()

    def _pin(self, t: torch.Tensor, device: Any = None) -> torch.Tensor:
        made = t.clone()
        self.remember(made)
        return made

    def remember(self, t: torch.Tensor) -> None:
        """Has `is_pinned` hold for a tensor's memory."""
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
