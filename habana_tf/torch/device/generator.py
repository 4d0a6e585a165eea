"""`torch.Generator("hpu")`: a generator of PyTorch's CPU that says it is the device's.

PyTorch can make a generator only for a device in C++. The device's random ops take the key of their stream from any
generator (`random_state.take`), so a generator of the CPU will do, with its own seed and state.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from habana_tf.torch.record import random_state

_Base = torch._C.Generator


class _Kind(type(_Base)):  # type: ignore[misc]
    """Makes every generator an instance of `Generator`, PyTorch's own ones included."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Base) if cls is Generator else type.__instancecheck__(cls, instance)


class Generator(torch._C.Generator, metaclass=_Kind):
    """Stands for torch.Generator, and also makes generators for the device hpu."""

    def __new__(cls, device: Any = "cpu") -> Any:
        asked = torch.device(device)
        if asked.type != "hpu":
            return _Base(device=asked)
        made = super().__new__(cls)
        random_state.of_device.add(made._cdata)
        weakref.finalize(made, random_state.of_device.discard, made._cdata)
        return made

    @property
    def device(self) -> torch.device:
        """hpu:0."""
        return torch.device("hpu", 0)

    def clone_state(self) -> Any:
        """Another generator in the same state."""
        made = Generator("hpu")
        made.set_state(self.get_state())
        return made

    def __reduce__(self) -> Any:
        return _restored, (self.get_state(),)

    def __deepcopy__(self, memo: Any) -> Any:
        return self.clone_state()


class DefaultGenerator(Generator):
    """The device's own state of random numbers as a generator: an op that is given this draws what it would draw
    without one."""

    def __new__(cls) -> Any:
        made = super().__new__(cls, "hpu")
        random_state.of_default.add(made._cdata)
        return made

    def manual_seed(self, seed: int) -> DefaultGenerator:
        """See `torch.hpu.manual_seed`."""
        random_state.default.manual_seed(int(seed))
        return self

    def seed(self) -> int:
        """See `torch.hpu.seed`."""
        return random_state.default.seed()

    def initial_seed(self) -> int:
        """See `torch.hpu.initial_seed`."""
        return random_state.default.initial_seed

    def get_state(self) -> torch.Tensor:
        """See `torch.hpu.get_rng_state`."""
        return random_state.default.get_state()

    def set_state(self, state: torch.Tensor) -> None:
        """See `torch.hpu.set_rng_state`."""
        random_state.default.set_state(state)

    def clone_state(self) -> Any:
        """A generator by itself, seeded with what this one's state decides."""
        made = Generator("hpu")
        state = random_state.default
        made.manual_seed((state.initial_seed + 0x9E3779B97F4A7C15 * (state.offset + 1)) & 0x7FFFFFFFFFFFFFFF)
        return made

    def __reduce__(self) -> Any:
        return _default, ()


default = DefaultGenerator()
"""That of the process's card."""


def _default() -> Any:
    return default


def _restored(state: torch.Tensor) -> Any:
    made = Generator("hpu")
    made.set_state(state)
    return made
