"""The state of the device's random numbers: a seed, and how many numbers of its stream are used.

A random op reads the next numbers of a Philox stream, the counter-based generator that cards have. Seed and offset in
the stream are numbers that a program reads at run time, so that one program serves all seeds and draws.

    torch.manual_seed(0) or torch.hpu.manual_seed(0)      seed 0, offset 0
    x.bernoulli_(0.5)  of 1000 elements                   reads blocks 0 to 250 of 128 bits, offset 250
"""

from __future__ import annotations

import secrets
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from habana_tf.torch.record.overload import Drawn

_FORMAT = "<QQ"
"""A state's bytes: seed and offset, 64 bits each."""
_MASK = (1 << 64) - 1


class RandomState:
    """A seed, and how many blocks of 128 bits of its stream are used. May be used by several threads."""

    def __init__(self, seed: int) -> None:
        self._lock = threading.Lock()
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> None:
        """Begins the stream of a seed; a negative one counts from 2**64 down, as in PyTorch."""
        with self._lock:
            self.initial_seed = seed & _MASK
            self.offset = 0

    def seed(self) -> int:
        """Begins a stream of a seed that nothing predicts, and returns the seed."""
        self.manual_seed(secrets.randbits(64))
        return self.initial_seed

    def take(self, blocks: int) -> tuple[int, int]:
        """Seed and offset of the next `blocks` blocks, as the signed 64-bit numbers that programs read."""
        with self._lock:
            offset = self.offset
            self.offset = (offset + blocks) & _MASK
            return _signed(self.initial_seed), _signed(offset)

    def get_state(self) -> torch.Tensor:
        """The state as a tensor of bytes on the CPU."""
        with self._lock:
            return torch.tensor(
                list(struct.pack(_FORMAT, self.initial_seed, self.offset)), dtype=torch.uint8, device="cpu"
            )

    def set_state(self, state: torch.Tensor) -> None:
        """Goes on where `get_state` was called. Raises TypeError or RuntimeError for what is no such state."""
        size = struct.calcsize(_FORMAT)
        if state.dtype is not torch.uint8 or state.device.type != "cpu":
            raise TypeError("RNG state must be a torch.ByteTensor")
        if state.numel() != size:
            raise RuntimeError(f"RNG state is wrong size: {state.numel()} bytes, the device hpu has {size}")
        seed, offset = struct.unpack(_FORMAT, bytes(state.tolist()))
        with self._lock:
            self.initial_seed, self.offset = seed, offset


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


default = RandomState(torch.initial_seed())
"""The state for ops that are given no generator. It begins with the seed that PyTorch had when the device was
loaded."""


of_device: set[int] = set()
"""The generators that are the device's, by their addresses: PyTorch gives its kernels other objects for them."""

of_default: set[int] = set()
"""Those of them that stand for `default`."""


def check(generator: torch.Generator) -> None:
    """Raises RuntimeError for a generator of another device."""
    if generator._cdata not in of_device:
        raise RuntimeError(f"Expected a 'hpu' device type for generator but found '{generator.device.type}'")


def take(generator: torch.Generator | None, blocks: int) -> tuple[Drawn, Drawn]:
    """Seed and offset for an op that reads so many blocks, to be recorded in this order. Each replay takes the next
    blocks. From a generator of PyTorch each op gets a new seed."""
    if generator is not None:
        check(generator)
        generator = None if generator._cdata in of_default else generator
    stretch = _Stretch(generator, blocks)
    return Drawn.of(stretch.seed(), stretch.seed), Drawn.of(stretch.offset(), stretch.offset)


class _Stretch:
    """A range of blocks for one op, and at each replay the next one. `seed` takes a range, and `offset` is then where
    it begins."""

    def __init__(self, generator: torch.Generator | None, blocks: int) -> None:
        self._generator, self._blocks = generator, blocks
        self._offset = 0

    def seed(self) -> int:
        if self._generator is None:
            seed, self._offset = default.take(self._blocks)
            return seed
        return int(torch.empty((), dtype=torch.int64, device="cpu").random_(generator=self._generator))

    def offset(self) -> int:
        return self._offset


@contextmanager
def on_cpu() -> Iterator[None]:
    """Within it ops that run on the CPU, and are given no generator, draw numbers that follow from the device's state.
    The CPU's own generator stays as it was."""
    own = torch.default_generator
    before = own.get_state()
    seed, offset = default.take(1)
    own.manual_seed((seed + 0x9E3779B97F4A7C15 * (offset + 1)) & (_MASK >> 1))
    try:
        yield
    finally:
        own.set_state(before)
