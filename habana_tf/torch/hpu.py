"""The module `torch.hpu`: what PyTorch and programs ask of the device by name, as of `torch.cuda`."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import torch

from habana_tf.torch import random_state

if TYPE_CHECKING:
    from habana_tf.hardware.cards import Card
    from habana_tf.torch.recording import Recorder
    from habana_tf.torch.storage import Memory

__all__ = [
    "current_device", "device_count", "empty_cache", "get_amp_supported_dtype", "get_device_name", "get_rng_state",
    "initial_seed", "is_available", "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated",
    "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats", "memory_summary",
    "reset_peak_memory_stats", "seed", "set_device", "set_rng_state", "synchronize",
]  # fmt: skip

_attached: tuple[Memory, Recorder, Card] | None = None


def attach(memory: Memory, recorder: Recorder, card: Card) -> None:
    """Says which device the module is about."""
    global _attached
    _attached = memory, recorder, card


def _now() -> tuple[Memory, Recorder, Card]:
    if _attached is None:
        raise RuntimeError("the device hpu is not loaded: import habana_frameworks.torch")
    _attached[1].collect()
    return _attached


def is_available() -> bool:
    """Whether there is a device."""
    return _attached is not None


def is_initialized() -> bool:
    """Whether the card is claimed, which loading does."""
    return _attached is not None


def device_count() -> int:
    """1: a process has one card."""
    return 1


def current_device() -> int:
    """0: a process has one card."""
    return 0


def set_device(device: Any) -> None:
    """Takes the one device there is. Raises RuntimeError for another."""
    index = device if isinstance(device, int) else torch.device(device).index
    if index not in (None, 0):
        raise RuntimeError(f"invalid device ordinal {index}: a process has one card, which is hpu:0")


def get_device_name(device: Any = None) -> str:
    """The chip, as Habana's software calls it."""
    return _now()[2].chip.device_type


def synchronize(device: Any = None) -> None:
    """Runs what was recorded. Nothing else is ever under way."""
    _now()[1].flush()


def manual_seed(seed: int) -> None:
    """Seeds the device's random numbers."""
    random_state.default.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """See `manual_seed`; torch.manual_seed calls this."""
    manual_seed(seed)


def initial_seed() -> int:
    """The seed that the random numbers began with."""
    return random_state.default.initial_seed


def seed() -> None:
    """Seeds the random numbers with what nothing predicts."""
    random_state.default.seed()


def get_rng_state(device: Any = None) -> torch.Tensor:
    """The state of the random numbers, a tensor of bytes on the CPU."""
    return random_state.default.get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = None) -> None:
    """Goes on with the random numbers where `get_rng_state` was called."""
    random_state.default.set_state(new_state)


def _is_in_bad_fork() -> bool:
    return False


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Types that autocast may choose."""
    return [torch.bfloat16]


def memory_allocated(device: Any = None) -> int:
    """Bytes of HBM that tensors have."""
    return _now()[0].statistics.allocated


def max_memory_allocated(device: Any = None) -> int:
    """The most that tensors had."""
    return _now()[0].statistics.peak


def memory_reserved(device: Any = None) -> int:
    """Bytes of HBM that this process has, freed ones that are kept included."""
    return _now()[0].statistics.reserved


def max_memory_reserved(device: Any = None) -> int:
    """The most that this process had."""
    return _now()[0].statistics.reserved_peak


def reset_peak_memory_stats(device: Any = None) -> None:
    """Counts the most from now on."""
    statistics = _now()[0].statistics
    statistics.peak, statistics.reserved_peak = statistics.allocated, statistics.reserved


def empty_cache() -> None:
    """Gives freed memory back."""
    _now()[0].empty_cache()


def memory_stats(device: Any = None) -> dict[str, int]:
    """Habana's names of the numbers above."""
    memory = _now()[0]
    s = memory.statistics
    return OrderedDict(
        Limit=memory.capacity, InUse=s.allocated, MaxInUse=s.peak, Reserved=s.reserved, MaxReserved=s.reserved_peak,
        NumRetries=s.retries, NumFailures=s.failures,
    )  # fmt: skip


def memory_summary(device: Any = None) -> str:
    """The numbers for people."""
    rows = [f"{name:>12} {number:>16,}" for name, number in memory_stats().items()]
    return "\n".join([f"Memory of {get_device_name()}, bytes", *rows])
