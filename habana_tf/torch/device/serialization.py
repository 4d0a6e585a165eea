"""torch.save and torch.load of tensors of the device: what they do with a storage that says `hpu`.

Without this PyTorch would ask for an allocator of the device, which only a backend in C++ has.
"""

from __future__ import annotations

from typing import Any

import torch

from habana_tf.torch.dispatch import fallback

_PRIORITY = 5
"""Before PyTorch's own, which begin with 10; no two may have one number."""


def register() -> None:
    """Has PyTorch read and write storages of the device."""

    def place(storage: Any) -> str | None:
        return str(storage.device) if storage.device.type == "hpu" else None

    def restored(storage: Any, location: str) -> Any:
        if location.split(":")[0] != "hpu":
            return None
        plain = torch.tensor([], dtype=torch.uint8, device="cpu").set_(_untyped(storage))
        return fallback.to_device(plain).untyped_storage()

    torch.serialization.register_package(_PRIORITY, place, restored)


def _untyped(storage: Any) -> Any:
    return storage if isinstance(storage, torch.UntypedStorage) else storage.untyped()
