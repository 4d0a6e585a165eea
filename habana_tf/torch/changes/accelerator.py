"""Changes of torch.accelerator, whose device is the accelerator of its process."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from habana_tf.host_changes.change import PYTORCH, Change, Group
from habana_tf.torch.device import hpu

_NAMES = {
    "memory_allocated": "memory_allocated", "max_memory_allocated": "max_memory_allocated",
    "memory_reserved": "memory_reserved", "max_memory_reserved": "max_memory_reserved",
    "reset_peak_memory_stats": "reset_peak_memory_stats", "get_memory_info": "mem_get_info",
    "memory_stats": "memory_stats",
}  # fmt: skip
"""By name, that of torch.hpu."""


def _of_the_device(name: str) -> Callable[[Any], Any]:
    """A function of torch.accelerator as that of torch.hpu."""

    def made(original: Any) -> Any:
        own = getattr(hpu, name)

        @functools.wraps(original)
        def call(device: Any = None, /) -> Any:
            return own() if device is None else own(device)

        return call

    return made


ACCELERATOR = Group(
    "accelerator", "PyTorch has it only for devices with an allocator in C++",
    (
        *(
            Change("torch.accelerator", name, _of_the_device(name))
            for name in ("synchronize", "current_stream", "set_stream")
        ),
        *(
            Change(module, name, _of_the_device(own))
            for module in ("torch.accelerator.memory", "torch.accelerator")
            for name, own in _NAMES.items()
        ),
    ), only="newer releases", framework=PYTORCH,
)  # fmt: skip
