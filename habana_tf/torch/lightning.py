"""Lightning on the device: to import this makes `Trainer(accelerator="hpu", devices=2)` and `Fabric` work.

Lightning has a registry of accelerators and one of strategies, to which the device is added under Habana's names:
`hpu`, `hpu_single`, `hpu_parallel`. Two of its choices it makes for its own accelerators alone, by their names: the
strategy that "auto" is, and the device of mixed precision. They are made here for `hpu`, and stay what they were for
all others.

Lightning 2 left the names that it had for Habana's cards (`HPUAccelerator`, `SingleHPUStrategy`, ...) as classes that
refuse. They are these here again, also as attributes of the modules where scripts import them from.

In lazy mode a step ends after the gradients and after the weights, as `htcore.mark_step()` would end it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

import torch

from habana_tf.hardware import cards
from habana_tf.torch import changes
from habana_tf.torch.changes import lightning as choices
from habana_tf.torch.device import hpu
from habana_tf.torch.hpex import hmp
from habana_tf.torch.record.current import recorder

SINGLE, PARALLEL = "hpu_single", "hpu_parallel"
"""Strategies for one card and for several."""


def _accelerator(package: str) -> Any:
    base: Any = importlib.import_module(f"{package}.accelerators").Accelerator
    say = importlib.import_module(f"{package}.utilities.rank_zero").rank_zero_info

    class HPUAccelerator(base):
        """Cards of this machine; a process has one of them."""

        hpu_strategies = SINGLE, PARALLEL

        def setup_device(self, device: torch.device) -> None:
            if device.type != "hpu":
                raise ValueError(f"the accelerator hpu was given the device {device}")

        def get_device_stats(self, device: Any) -> dict[str, Any]:
            return dict(hpu.memory_stats(device))

        def teardown(self) -> None:
            hpu.synchronize()

        @staticmethod
        def parse_devices(devices: Any) -> int:
            """How many cards are wanted, of a number or a list."""
            return len(devices) if isinstance(devices, (list, tuple)) else int(devices)

        @staticmethod
        def get_parallel_devices(devices: int) -> list[torch.device]:
            """Each process calls its card hpu:0."""
            say(f"HPU available: True, using: {devices} HPU{'s' if devices > 1 else ''}")
            return [torch.device("hpu", 0)] * devices

        @staticmethod
        def auto_device_count() -> int:
            return len(cards.visible_cards())

        @staticmethod
        def is_available() -> bool:
            return bool(cards.cards())

        @staticmethod
        def name() -> str:
            return "hpu"

    return HPUAccelerator


def _marking(base: Any) -> Any:
    class Marking(base):
        """A strategy that ends a recorded step after the gradients, and after the weights."""

        def backward(self, *args: Any, **kwargs: Any) -> Any:
            made = super().backward(*args, **kwargs)
            recorder().flush()
            return made

        def optimizer_step(self, *args: Any, **kwargs: Any) -> Any:
            made = super().optimizer_step(*args, **kwargs)
            recorder().flush()
            return made

    return Marking


def _strategies(package: str) -> tuple[Any, Any]:
    from habana_tf.torch.distributed.group import register

    register()
    strategies = importlib.import_module(f"{package}.strategies")

    class SingleHPUStrategy(_marking(strategies.SingleDeviceStrategy)):  # type: ignore[misc]
        """One process, one card."""

        strategy_name = SINGLE

        def __init__(self, device: Any = "hpu", **kwargs: Any) -> None:
            super().__init__(device, **kwargs)

    class HPUParallelStrategy(_marking(strategies.DDPStrategy)):  # type: ignore[misc]
        """DistributedDataParallel over `hccl`, a process for each card."""

        strategy_name = PARALLEL

        def __init__(self, *args: Any, process_group_backend: str = "hccl", **kwargs: Any) -> None:
            super().__init__(*args, process_group_backend=process_group_backend, **kwargs)

        def determine_ddp_device_ids(self) -> None:
            """None: ids are those of CUDA's devices to Lightning."""

        _determine_ddp_device_ids = determine_ddp_device_ids

    return SingleHPUStrategy, HPUParallelStrategy


def _plugins(package: str) -> dict[str, Any]:
    """By their old names, the precision, the checkpoints and the profiler for the device, of a `Trainer`'s package."""
    plugins: Any = importlib.import_module(f"{package}.plugins")
    profiler: Any = importlib.import_module(f"{package}.profilers").PyTorchProfiler

    class HPUPrecisionPlugin(plugins.MixedPrecision):
        """Autocast to bfloat16, or none for 32-true. With files of ops, or a level, casts are those of Habana's hmp,
        which stay on. Raises ValueError for another precision."""

        def __init__(
            self, precision: str = "bf16-mixed", opt_level: str = "", bf16_file_path: str | None = None,
            fp32_file_path: str | None = None, verbose: bool = False, device: str = "hpu",
        ) -> None:  # fmt: skip
            if precision not in ("32-true", "bf16-mixed"):
                raise ValueError(f"HPUPrecisionPlugin has the precisions 32-true and bf16-mixed, not {precision!r}")
            super().__init__("bf16-mixed", device)
            self.precision = precision
            if precision == "bf16-mixed" and (opt_level or bf16_file_path or fp32_file_path):
                hmp.convert(opt_level or "O1", bf16_file_path or "", fp32_file_path or "", verbose)

        def forward_context(self) -> Any:
            return torch.autocast("hpu", torch.bfloat16, enabled=self.precision == "bf16-mixed")

    class HPUCheckpointIO(plugins.TorchCheckpointIO):
        """Checkpoints of the device, which are as those of any other."""

    class HPUProfiler(profiler):
        """PyTorch's profiler with the device's events."""

        def __init__(self, *args: Any, activities: Any = None, **kwargs: Any) -> None:
            both = {torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.HPU}
            super().__init__(*args, activities=activities or both, **kwargs)

    return {c.__name__: c for c in (HPUPrecisionPlugin, HPUCheckpointIO, HPUProfiler)}


_PLACES = {
    "HPUAccelerator": ("accelerators", "accelerators.hpu"),
    "SingleHPUStrategy": ("strategies", "strategies.single_hpu"),
    "HPUParallelStrategy": ("strategies", "strategies.hpu_parallel"),
    "HPUPrecisionPlugin": ("plugins", "plugins.precision", "plugins.precision.hpu"),
    "HPUCheckpointIO": ("plugins", "plugins.io", "plugins.io.hpu_plugin"),
    "HPUProfiler": ("profilers", "profilers.hpu"),
}
"""Where scripts of before import a name from, below Lightning's package."""


def _name(package: str, name: str, value: Any) -> None:
    """Puts a class where its name was before; modules that are gone are made."""
    for place in _PLACES[name]:
        full = f"{package}.{place}"
        module = sys.modules.get(full)
        if module is None or module.__name__ != full:  # none, or the one in which Lightning's classes refuse
            module = sys.modules[full] = ModuleType(full)
        setattr(module, name, value)


def register_in(package: str) -> None:
    """Adds the device to one of Lightning's packages, once."""
    fabric = package in choices.FABRICS
    accelerators = importlib.import_module(f"{package}.accelerators")
    registry = accelerators.ACCELERATOR_REGISTRY if fabric else accelerators.AcceleratorRegistry
    if "hpu" in registry:
        return
    accelerator, strategies = _accelerator(package), _strategies(package)
    registry.register("hpu", accelerator, description="a simulated Gaudi", override=True)
    known = importlib.import_module(f"{package}.strategies")
    known = known.STRATEGY_REGISTRY if fabric else known.StrategyRegistry
    for strategy in strategies:
        known.register(strategy.strategy_name, strategy, description=strategy.__doc__.splitlines()[0], override=True)
    if not fabric:
        named = {each.__name__: each for each in (accelerator, *strategies)}
        for name, value in {**named, **_plugins(package)}.items():
            _name(package, name, value)


def register() -> None:
    """Adds the device to Lightning. Raises ModuleNotFoundError where it is not installed."""
    names = (*choices.PACKAGES, *choices.FABRICS)
    found = [name for name in names if importlib.util.find_spec(name.partition(".")[0]) is not None]
    if not found:
        raise ModuleNotFoundError("habana_tf.torch.lightning needs Lightning: pip install lightning", name="lightning")
    for package in found:
        register_in(package)
    changes.install(choices.GROUPS)


register()
