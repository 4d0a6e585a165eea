"""A recording bound to the arguments of a function: what is recorded once is run again with other tensors.

The recorder finds the program of a call op by op. Where it is known that the same ops will follow (a graph of
torch.compile), the first call is recorded as any other and watched: which argument each input of its program is, which
tensors it makes. A later call then takes the addresses of its arguments, makes the results and runs the program:

    recorded:  program(input 0 = memory of argument 2, numbers) -> output 0 = memory of result 0
    run again: addresses of the arguments, one new tensor per result, one launch

What is bound holds for arguments whose memory has the same layout; for others there is another recording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from habana_tf.torch.kernel import Drawn
from habana_tf.torch.launch import Launch, Watched, aligned
from habana_tf.torch.storage import Block, Memory


@dataclass(frozen=True)
class _Met:
    """An argument on the device as it was met: the contents of its block and its view of them. whole: of a tensor
    without elements nothing matters."""

    place: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    strides: tuple[int, ...]
    offset: int


_ARGUMENT, _FIXED, _SCRATCH, _RESULT = range(4)
"""Where an address comes from: an argument, what the graph holds, memory for this run only, a result."""
_Address = tuple[int, int]
"""One of these, and which argument, address, size, or number of the result's storage."""
_Storage = tuple[Any, ...]
"""What `Memory.tensor` takes for the first tensor of a new storage."""


class Bound:
    """A program with where its addresses come from. Made by `bind`."""

    def __init__(self, memory: Memory, launch: Launch | None) -> None:
        self.memory, self.launch = memory, launch
        self.met: list[_Met] = []
        self.distinct = 0
        self.inputs: list[_Address] = []
        self.outputs: list[_Address] = []
        self.storages: list[_Storage] = []
        self.results: list[Callable[[Sequence[Any], list[torch.Tensor]], Any]] = []
        self.vectors: list[Any] = []
        self.hosts: list[tuple[int, int, int]] = []
        self.drawn: list[tuple[int, Drawn]] = []

    def blocks(self, args: Sequence[Any]) -> dict[int, Block] | None:
        """The block of each argument that is on the device; None where one has another layout than was bound."""
        known = self.memory.blocks
        found: dict[int, Block] = {}
        for m in self.met:
            t = args[m.place]
            block = known.get(t.untyped_storage().data_ptr())
            if (
                block is None or block.shape != m.shape or block.dtype is not m.dtype or t.stride() != m.strides
                or t.storage_offset() != m.offset
            ):  # fmt: skip
                return None
            found[m.place] = block
        return found if len({id(b) for b in found.values()}) == self.distinct else None

    def run(self, args: Sequence[Any], blocks: dict[int, Block]) -> list[Any]:
        """The results. blocks: of the arguments. Raises what `Launch.run` raises, and torch.OutOfMemoryError."""
        memory = self.memory
        made: list[torch.Tensor] = []
        given: list[Block] = []
        for storage in self.storages:
            t, block = memory.tensor(*storage)
            made.append(t)
            given.append(block)
        if self.launch is not None:
            scratch: list[Block] = []

            def block_of(kind: int, k: int) -> Block:
                if kind == _SCRATCH:
                    scratch.append(memory.workspace(k))
                    return scratch[-1]
                return blocks[k] if kind == _ARGUMENT else given[k]

            try:
                inputs = [k if kind == _FIXED else block_of(kind, k).address for kind, k in self.inputs]
                outputs = []
                for kind, k in self.outputs:
                    if kind == _FIXED:
                        outputs.append(k)
                        continue
                    block = block_of(kind, k)
                    if not block.counted:
                        memory.count(block)
                    outputs.append(block.address)
                self._read_numbers(args)
                inputs += [v.ctypes.data for v in self.vectors if len(v)]
                self.launch.run(inputs, outputs)
            finally:
                for block in scratch:
                    memory.release(block)
        memory.publish()
        return [result(args, made) for result in self.results]

    def _read_numbers(self, args: Sequence[Any]) -> None:
        for vector, place, argument in self.hosts:
            self.vectors[vector][place] = args[argument].item()
        for place, number in self.drawn:
            self.vectors[1][place] = number.again()


def bind(
    memory: Memory, watched: Watched, args: Sequence[Any], results: Sequence[Any], kept: Sequence[torch.Tensor]
) -> Bound | None:
    """Binds what was watched during a call to its arguments. results: what the call gave. kept: tensors that the graph
    holds. None where another call need not come to the same: its program was not one, or a number came in a tensor of
    the CPU that is no argument."""
    if len(watched.launches) > 1:
        return None
    launch, read, written = watched.launches[0] if watched.launches else (None, [], [])
    bound = Bound(memory, launch)
    owners: dict[int, int] = {}
    for place, t in enumerate(args):
        if isinstance(t, torch.Tensor) and t.device.type == "hpu":
            block = memory.of(t)
            owners.setdefault(id(block), place)
            bound.met.append(_Met(place, block.shape, block.dtype, t.stride(), t.storage_offset()))
    bound.distinct = len(owners)
    fixed = {id(memory.of(t)) for t in kept if t.device.type == "hpu"}
    fresh: dict[int, int] = {}
    for r in results:
        bound.results.append(_result(bound, r, owners, fixed, fresh, args))

    def address(block: Block) -> _Address:
        key = id(block)
        if key in owners:
            return _ARGUMENT, owners[key]
        if key in fixed:
            return _FIXED, block.address
        return (_RESULT, fresh[key]) if key in fresh else (_SCRATCH, block.size)

    bound.inputs, bound.outputs = [address(b) for b in read], [address(b) for b in written]
    for numbers, dtype in zip(watched.numbers, (np.float32, np.int64), strict=True):
        assert isinstance(numbers, list)
        vector = aligned(len(numbers), dtype)
        vector[:] = numbers
        bound.vectors.append(vector)
    for kind, place, host in watched.hosts:
        argument = next((k for k, a in enumerate(args) if a is host), None)
        if argument is None:
            return None
        bound.hosts.append((int(kind == "integer"), place, argument))
    bound.drawn = watched.drawn
    return bound


def _result(
    bound: Bound, r: Any, owners: dict[int, int], fixed: set[int], fresh: dict[int, int], args: Sequence[Any]
) -> Callable[[Sequence[Any], list[torch.Tensor]], Any]:
    """How a later call gets a result: an argument, a view of one, a new tensor, a view of it, or what it always is."""
    if not isinstance(r, torch.Tensor) or r.device.type != "hpu":
        at = next((k for k, a in enumerate(args) if a is r and isinstance(a, torch.Tensor)), None)
        return (lambda args, made: r) if at is None else (lambda args, made: args[at])
    same = next((k for k, a in enumerate(args) if a is r), None)
    if same is not None:
        return lambda args, made: args[same]
    block = bound.memory.of(r)
    shape, strides, offset = tuple(r.shape), r.stride(), r.storage_offset()
    if id(block) in owners:
        owner = owners[id(block)]
        return lambda args, made: args[owner].as_strided(shape, strides, offset)
    if id(block) in fixed:
        return lambda args, made: r
    if id(block) in fresh:
        first = fresh[id(block)]
        return lambda args, made: made[first].as_strided(shape, strides, offset)
    k = fresh[id(block)] = len(bound.storages)
    if offset == 0 and r.dtype is block.dtype:
        bound.storages.append((shape, strides, r.dtype, block.size, block.shape))
        return lambda args, made: made[k]
    flat = (block.size // block.dtype.itemsize,)
    bound.storages.append((flat, (1,), block.dtype, block.size, block.shape))
    return lambda args, made: made[k].as_strided(shape, strides, offset)
