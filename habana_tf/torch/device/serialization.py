"""Lets torch.save and torch.load handle storages of the device.

PyTorch would ask for an allocator of the device to load them, which only devices in C++ have.
"""

from __future__ import annotations

from typing import Any

import torch

from habana_tf.torch.dispatch import fallback

_PRIORITY = 5
"""Before PyTorch's own handlers, whose numbers begin with 10. No two may have the same."""


def register() -> None:
    """Registers how storages of the device are saved and loaded."""

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
