"""`torch.hpu.memory`: how much of the card's HBM is taken. Numbers are bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from habana_tf.torch.record.current import chip, index, memory

__all__ = [
    "empty_cache", "max_memory_allocated", "max_memory_cached", "max_memory_reserved", "mem_get_info",
    "memory_allocated", "memory_cached", "memory_reserved", "memory_stats", "memory_summary",
    "reset_accumulated_memory_stats", "reset_peak_memory_stats",
]  # fmt: skip


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors use."""
    index(device)
    return memory().statistics.allocated


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors used."""
    index(device)
    return memory().statistics.peak


def memory_reserved(device: Any = None) -> int:
    """Bytes that this process has, with freed memory that it keeps."""
    index(device)
    return memory().statistics.reserved


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that this process had."""
    index(device)
    return memory().statistics.reserved_peak


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved
"""Names that they had before."""


def reset_peak_memory_stats(device: Any = None) -> None:
    """Forgets the peaks: counts the most bytes from now on."""
    index(device)
    statistics = memory().statistics
    statistics.peak, statistics.reserved_peak = statistics.allocated, statistics.reserved


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Sets the counts of how often memory ran out to 0."""
    index(device)
    statistics = memory().statistics
    statistics.retries = statistics.failures = 0


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free bytes, and all bytes of the card."""
    index(device)
    found = memory()
    return found.capacity - found.statistics.reserved, found.capacity


def empty_cache() -> None:
    """Gives freed memory back."""
    memory().empty_cache()


def memory_stats(device: Any = None) -> dict[str, int]:
    """The numbers above under Habana's names, and how often memory ran out: NumRetries, after which freed memory
    sufficed, and NumFailures."""
    index(device)
    found = memory()
    s = found.statistics
    return OrderedDict(
        Limit=found.capacity, InUse=s.allocated, MaxInUse=s.peak, Reserved=s.reserved, MaxReserved=s.reserved_peak,
        NumRetries=s.retries, NumFailures=s.failures,
    )  # fmt: skip


def memory_summary(device: Any = None) -> str:
    """The numbers for people."""
    rows = [f"{name:>12} {number:>16,}" for name, number in memory_stats(device).items()]
    return "\n".join([f"Memory of {chip().device_type}, bytes", *rows])
