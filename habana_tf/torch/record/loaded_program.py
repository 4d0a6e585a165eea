"""A program that is ready to run, on addresses of blocks; and what a capture or a stretch notes while ops are
recorded."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from habana_tf._native import _bridge
from habana_tf.resolver import placements
from habana_tf.resolver.resolve import resolve
from habana_tf.torch.memory import usage
from habana_tf.torch.memory.storage import Block, Memory
from habana_tf.torch.record import scopes, telemetry
from habana_tf.torch.record.out_of_range import RefusedValue
from habana_tf.torch.record.overload import Drawn
from habana_tf.torch.record.program import Recording
from habana_tf.torch.record.ranges import Structures
from habana_tf.torch.record.why_new import Recordings

log = logging.getLogger("habana_tf")

_ALIGNMENT = 64
_recordings = Recordings()
_structures = Structures()


class LoadedProgram:
    """A compiled program, ready to run."""

    def __init__(self, recording: Recording, memory: Memory, inputs: Sequence[Block]) -> None:
        """inputs: the blocks that this recording reads."""
        start = time.monotonic_ns()
        cluster, met, self._sizes = _structures.cluster(recording, lambda: usage.weights(memory, inputs))
        self._more = [] if self._sizes is None else [self._sizes.ctypes.data]
        cluster.because = _recordings.because(recording)
        bound = resolve(cluster, met, memory.statistics.allocated)
        telemetry.resolved(start, bound)
        placements.note_program(cluster, scopes.most(recording.scopes))
        self._native = _bridge.AddressedLaunch(bound, [(number, shape) for number, shape, _ in met])

        self._memory = memory
        self._lines = recording.lines

    def run(self, inputs: list[int], outputs: list[int], parts: tuple[int, ...] = ()) -> None:
        """Runs it. inputs, outputs: addresses. parts: the numbers of inputs that are parts of a block. Raises what the
        program raises."""
        size = self._native.workspace
        block = self._memory.workspace(size) if size else None
        if self._more:
            inputs = inputs + self._more
        try:
            warning = self._native.run(inputs, outputs, parts, 0 if block is None else block.address)
        except (RuntimeError, IndexError) as why:
            found = RefusedValue.of(str(why), self._lines)
            raise why if found is None else found.error() from None
        finally:
            if block is not None:
                self._memory.release(block)
        if warning:
            found = RefusedValue.of(warning, self._lines)
            log.warning("%s", warning if found is None else found.warning())


@dataclass
class Watched:
    """What happened while ops were recorded, for a stretch; `device.graphs` has a subclass for captures.

    hosts: (kind, position, tensor) of each number that came in a tensor of the CPU.
    drawn: (position, number) of each integer that is another one in each run.
    by_host: whether the host read or wrote a tensor.
    """

    hosts: list[tuple[str, int, torch.Tensor]] = field(default_factory=list)
    drawn: list[tuple[int, Drawn]] = field(default_factory=list)
    by_host: bool = False

    def ran(
        self, launch: LoadedProgram, read: list[Block], offsets: dict[int, int], written: list[Block],
        numbers: tuple[list[float], list[int]],
    ) -> bool:  # fmt: skip
        """Called before a program runs. offsets: of inputs that are parts of a block, by number, the bytes before them.
        numbers: floats and integers that it reads at run time. Returns whether it is to run."""
        return True

    def undo(self, floats: int, integers: int) -> None:
        """Forgets the numbers of a call that is not recorded after all. floats, integers: how many there were before
        it."""
        kept = {"float": floats, "integer": integers}
        self.hosts = [host for host in self.hosts if host[1] < kept[host[0]]]
        self.drawn = [drawn for drawn in self.drawn if drawn[0] < integers]

    def touched(self, block: Block, write: bool) -> None:
        """Called before the host reads a block or writes it."""
        self.by_host = True

    def random(self, overload: Any) -> None:
        """Called before the host draws random numbers for an op."""


def aligned(count: int, dtype: Any) -> Any:
    """A vector whose address is a multiple of 64."""
    size = np.dtype(dtype).itemsize
    raw = np.empty(count * size + _ALIGNMENT, np.uint8)
    first = -raw.ctypes.data % _ALIGNMENT
    return raw[first : first + count * size].view(dtype)
