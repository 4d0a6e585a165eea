"""Lightning on the device: to import this makes `Trainer(accelerator="hpu", devices=2)` work.

Lightning has a registry of accelerators and one of strategies, to which the device is added under Habana's names:
`hpu`, `hpu_single`, `hpu_parallel`. Two of its choices it makes for its own accelerators alone, by their names: the
strategy that "auto" is, and the device of mixed precision. They are made here for `hpu`, and stay what they were for
all others.

In lazy mode a step ends after the gradients and after the weights, as `htcore.mark_step()` would end it.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import torch

from habana_tf.hardware import cards
from habana_tf.torch import changes, hpu
from habana_tf.torch.changes import lightning as choices
from habana_tf.torch.device import load

SINGLE, PARALLEL = "hpu_single", "hpu_parallel"
"""Strategies for one card and for several."""


def _accelerator(package: str) -> Any:
    base: Any = importlib.import_module(f"{package}.accelerators").Accelerator

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
            return [torch.device("hpu", 0)] * devices

        @staticmethod
        def auto_device_count() -> int:
            return len(cards.visible_cards())

        @staticmethod
        def is_available() -> bool:
            return True

        @staticmethod
        def name() -> str:
            return "hpu"

    return HPUAccelerator


def _marking(base: Any) -> Any:
    class Marking(base):
        """A strategy that ends a recorded step after the gradients, and after the weights."""

        def post_backward(self, closure_loss: Any) -> None:
            super().post_backward(closure_loss)
            load().recorder.flush()

        def optimizer_step(self, *args: Any, **kwargs: Any) -> Any:
            made = super().optimizer_step(*args, **kwargs)
            load().recorder.flush()
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

    return SingleHPUStrategy, HPUParallelStrategy


def register_in(package: str) -> None:
    """Adds the device to one of Lightning's packages, once."""
    registry = importlib.import_module(f"{package}.accelerators").AcceleratorRegistry
    if "hpu" in registry:
        return
    accelerator, strategies = _accelerator(package), _strategies(package)
    registry.register("hpu", accelerator, description="a simulated Gaudi", override=True)
    known = importlib.import_module(f"{package}.strategies").StrategyRegistry
    for strategy in strategies:
        known.register(strategy.strategy_name, strategy, description=strategy.__doc__.splitlines()[0], override=True)


def register() -> None:
    """Adds the device to Lightning. Raises ModuleNotFoundError where it is not installed."""
    found = [name for name in choices.PACKAGES if importlib.util.find_spec(name.partition(".")[0]) is not None]
    if not found:
        raise ModuleNotFoundError("habana_tf.torch.lightning needs Lightning: pip install lightning", name="lightning")
    for package in found:
        register_in(package)
    changes.install(choices.GROUPS)


register()
