"""Changes for what PyTorch asks of a device's allocator and generators."""

from __future__ import annotations

from typing import Any

import torch

from habana_tf.host_changes.change import PYTORCH, Change, Group
from habana_tf.torch.device import pinned
from habana_tf.torch.device.generator import Generator


def _generator(original: Any) -> Any:
    return Generator


def _storages(original: Any) -> Any:
    """Makes a storage of the device from a tensor of bytes."""

    def __new__(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None or torch.device(device).type != "hpu":
            return original(cls, *args, **kwargs) if device is None else original(cls, *args, device=device, **kwargs)
        (size,) = args or (0,)
        if isinstance(size, int):
            return torch.empty(size, dtype=torch.uint8, device="hpu").untyped_storage()
        return torch.tensor(list(size), dtype=torch.uint8, device="cpu").to("hpu").untyped_storage()

    return __new__


GENERATOR = Group(
    "generator", 'torch.Generator("hpu") raises NotImplementedError', (Change("torch", "Generator", _generator),),
    framework=PYTORCH,
)  # fmt: skip
PINNED = Group(
    "pinned_memory", "`pin_memory()` and `DataLoader(pin_memory=True)` raise", (),
    begin=lambda started: pinned.default.on_cpu(), end=pinned.default.off_cpu, framework=PYTORCH,
)  # fmt: skip
COPIES = Group(
    "storage_copies", "deepcopy of a tensor ends the process", (Change("torch", "UntypedStorage.__new__", _storages),),
    framework=PYTORCH,
)  # fmt: skip
