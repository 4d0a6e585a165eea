"""All that this package changes in PyTorch's own modules when the device is loaded: one list, and nothing elsewhere.

Each stands for something that PyTorch asks only of a backend in C++; what it does for other devices stays as it was.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from habana_tf.torch import hpu, profiler
from habana_tf.torch.autocast import Casts
from habana_tf.torch.generator import Generator
from habana_tf.torch.moved_modules import keeping_parameters


@dataclass(frozen=True)
class Change:
    """module, name: what is replaced, of a module or a class. made: what replaces it, from the original. why: what goes
    wrong without."""

    module: str
    name: str
    made: Callable[[Any], Any]
    why: str


def _generator(original: Any) -> Any:
    return Generator


def _shown_from_cpu(original: Any) -> Any:
    @functools.wraps(original)
    def _tensor_str(self: torch.Tensor, indent: int) -> Any:
        return original(self.detach().cpu() if self.device.type == "hpu" else self, indent)

    return _tensor_str


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


def _of_the_device(name: str) -> Callable[[Any], Any]:
    """A function of torch.accelerator as that of torch.hpu. The device is the accelerator of its process."""

    def made(original: Any) -> Any:
        own = getattr(hpu, name)

        @functools.wraps(original)
        def call(device: Any = None, /) -> Any:
            return own() if device is None else own(device)

        return call

    return made


def changes(casts: Casts) -> tuple[Change, ...]:
    """Every change. casts: the autocast whose weights are forgotten with PyTorch's own."""

    def clearing(original: Any) -> Any:
        @functools.wraps(original)
        def clear_autocast_cache() -> None:
            casts.forget()
            original()

        return clear_autocast_cache

    memory = "torch.accelerator.memory"
    return (
        Change("torch", "Generator", _generator, 'torch.Generator("hpu") raises NotImplementedError'),
        Change("torch", "clear_autocast_cache", clearing, "cast weights outlive the autocast that cast them"),
        Change("torch.nn.Module", "_apply", keeping_parameters, "an optimizer made before `.to` trains nothing"),
        Change("torch.UntypedStorage", "__new__", _storages, "deepcopy of a tensor ends the process"),
        Change("torch._tensor_str", "_tensor_str", _shown_from_cpu, "to print a tensor runs a dozen ops of the device"),
        *(
            Change("torch.autograd.profiler.profile", name, made, "a profiler has no events of the device")
            for name, made in (
                ("_start_trace", profiler.starting),
                ("__exit__", profiler.ending),
                ("_ensure_function_events", profiler.parsing),
                ("export_chrome_trace", profiler.exporting),
            )
        ),
        *(
            Change(module, name, _of_the_device(own), "PyTorch has it only for devices with an allocator in C++")
            for module, name, own in (
                ("torch.accelerator", "synchronize", "synchronize"),
                (memory, "memory_allocated", "memory_allocated"),
                (memory, "max_memory_allocated", "max_memory_allocated"),
                (memory, "memory_reserved", "memory_reserved"),
                (memory, "max_memory_reserved", "max_memory_reserved"),
                (memory, "reset_peak_memory_stats", "reset_peak_memory_stats"),
                (memory, "get_memory_info", "mem_get_info"),
                (memory, "memory_stats", "memory_stats"),
            )
        ),
    )


def install(casts: Casts) -> None:
    """Makes the changes, but those to what this release of PyTorch has not."""
    for change in changes(casts):
        owner, package = _owner(change.module)
        original = getattr(owner, change.name, None)
        if original is None:
            continue
        replacement = change.made(original)
        setattr(owner, change.name, replacement)
        if getattr(package, change.name, None) is original:
            setattr(package, change.name, replacement)  # the name that the package gives it, too


def _owner(path: str) -> tuple[Any, Any]:
    """A module or class by its full name, None where this PyTorch has none, and the module that it is in."""
    parent, _, name = path.rpartition(".")
    package = importlib.import_module(parent) if parent else None
    try:
        return importlib.import_module(path), package
    except ModuleNotFoundError:
        return getattr(package, name, None), package
