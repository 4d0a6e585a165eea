"""The module `torch.hpu`: what PyTorch and programs ask of the device by name, as of `torch.cuda`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from habana_tf.hardware import claim, readings
from habana_tf.settings import HABANA_SIM_CARDS, HLS_MODULE_ID
from habana_tf.torch.device import graphed, memory, metrics, random, streams, switches
from habana_tf.torch.device.graphed import *  # noqa: F403
from habana_tf.torch.device.graphed import __all__ as _graphed
from habana_tf.torch.device.legacy_storages import *  # noqa: F403
from habana_tf.torch.device.legacy_storages import __all__ as _storages
from habana_tf.torch.device.memory import *  # noqa: F403
from habana_tf.torch.device.memory import __all__ as _memory
from habana_tf.torch.device.metrics import metric_global, metric_localcontext
from habana_tf.torch.device.random import *  # noqa: F403
from habana_tf.torch.device.random import __all__ as _random
from habana_tf.torch.device.streams import *  # noqa: F403
from habana_tf.torch.device.streams import __all__ as _streams
from habana_tf.torch.device.switches import *  # noqa: F403
from habana_tf.torch.device.switches import __all__ as _switches
from habana_tf.torch.record import current, program_ends
from habana_tf.torch.record.current import in_bad_fork as _is_in_bad_fork
from habana_tf.torch.record.current import index

__all__ = [
    "can_device_access_peer", "current_device", "device", "device_count", "device_of", "get_amp_supported_dtype",
    "get_arch_list", "get_autocast_hpu_dtype", "get_device_capability", "get_device_name", "get_device_properties",
    "get_gencode_flags", "graphed", "init", "is_autocast_hpu_enabled", "is_available", "is_bf16_supported",
    "is_initialized", "memory", "memory_usage", "metric_global", "metric_localcontext", "metrics", "random",
    "set_autocast_hpu_dtype", "set_autocast_hpu_enabled", "set_device", "streams", "switches", "synchronize",
    "utilization", *_graphed, *_memory, *_random, *_storages, *_streams, *_switches,
]  # fmt: skip

_ = _is_in_bad_fork  # PyTorch asks for it by this name
_initialized = True
"""With it torch.utils.checkpoint saves the device's random state; without, a dropout is another one when it is
recomputed."""


def init() -> None:
    """Does nothing but look whether the device is loaded: the first tensor claims the card."""
    current.recorder()


def __getattr__(name: str) -> Any:
    """Refuses what is not here. PyTorch asks for `_lazy_init` where it has a device type of its own by this name, which
    `torch.device("hpu")` is before the import."""
    if name == "_lazy_init":
        raise AttributeError(
            'a torch.device("hpu") from before `import habana_frameworks.torch` is another device: make it after that, '
            "or set PT_HPU_AUTOLOAD=1, so that `import torch` loads HPU"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_available() -> bool:
    """Whether there is a card. Libraries that look for one use the CPU where HABANA_SIM_CARDS is 0."""
    return current.is_loaded() and HABANA_SIM_CARDS.get() > 0


def is_initialized() -> bool:
    """Whether this process has claimed a card, as its first tensor does."""
    return current.is_loaded() and current.recorder().memory.used


def device_count() -> int:
    """1: a process has one card. 0 on a machine without any."""
    return int(HABANA_SIM_CARDS.get() > 0)


def current_device() -> int:
    """0: a process has one card."""
    return 0


def set_device(device: Any) -> None:
    """Chooses the card, which is the only one of this process. Another number is that of one of the machine's cards,
    which the process claims then: so Habana's scripts give each process a card. Raises RuntimeError where it already
    has another."""
    number = device if isinstance(device, int) else torch.device(device).index or 0
    if number and not is_initialized():
        HLS_MODULE_ID.set(str(number))
    index(number)


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number that a device is named with: -1 of the CPU with allow_cpu, the current card's where there is none and
    optional. Raises ValueError for another kind of device and, without optional, for one that has no number."""
    if isinstance(device, int):
        return device
    found = device if device is None else torch.device(device)
    if found is not None and found.type == "cpu" and allow_cpu:
        return -1
    if found is not None and found.type != "hpu":
        raise ValueError(f"Expected a hpu device, but got: {found}")
    if found is not None and found.index is not None:
        return int(found.index)
    if not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    return current_device()


class device:
    """Chooses the card within it, as `set_device`. Raises RuntimeError for another than this process has."""

    def __init__(self, device: Any) -> None:
        self.idx = index(None if isinstance(device, int) and device < 0 else device)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


class device_of(device):
    """Chooses the card of a tensor within it."""

    def __init__(self, obj: torch.Tensor) -> None:
        super().__init__(obj.device if obj.device.type == "hpu" else None)


def get_device_name(device: Any = None) -> str:
    """The chip, as Habana's software calls it."""
    index(device)
    return current.chip().device_type


def get_device_capability(device: Any = None) -> str:
    """The chip's name: Gaudi has no numbers of capabilities."""
    return get_device_name(device)


def get_device_properties(device: Any = None) -> SimpleNamespace:
    """name; total_memory, bytes of HBM; multi_processor_count, its TPCs."""
    index(device)
    chip, memory = current.chip(), current.recorder().memory
    return SimpleNamespace(name=chip.device_type, total_memory=memory.capacity, multi_processor_count=chip.tpc_engines)


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """False: a process has one card."""
    return False


def synchronize(device: Any = None) -> None:
    """Runs what was recorded. Nothing else runs asynchronously."""
    index(device)
    program_ends.flush("torch.hpu.synchronize()")


def is_bf16_supported() -> bool:
    """Whether there is a card, as all have bf16."""
    return is_available()


def get_arch_list() -> list[str]:
    """What programs are compiled for: the one chip, by its name."""
    return [get_device_name()]


def get_gencode_flags() -> str:
    """Empty: those of a compiler of CUDA are not Gaudi's."""
    return ""


def memory_usage(device: Any = None) -> int:
    """Bytes of HBM that tensors have, as `memory_allocated`."""
    return memory.memory_allocated(device)


def utilization(device: Any = None) -> int:
    """How busy the card was lately, in percent, as `hl-smi` shows it."""
    index(device)
    return round(100 * readings.read(claim.claim()).utilization)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Types that autocast may choose."""
    return [torch.bfloat16]


def set_autocast_hpu_enabled(enabled: bool) -> None:
    """Turns autocast on or off in this thread."""
    torch.set_autocast_enabled("hpu", enabled)


def is_autocast_hpu_enabled() -> bool:
    """Whether autocast is on in this thread."""
    return torch.is_autocast_enabled("hpu")


def set_autocast_hpu_dtype(dtype: torch.dtype) -> None:
    """Sets the type that autocast casts to."""
    torch.set_autocast_dtype("hpu", dtype)


def get_autocast_hpu_dtype() -> torch.dtype:
    """The type that autocast casts to."""
    return torch.get_autocast_dtype("hpu")
