"""A recording bound to the arguments of a function: what is recorded once is run again with other tensors.

The recorder finds the program of a call op by op. Where it is known that the same ops will follow (a graph of
torch.compile), the first call is recorded as any other and watched: which argument each input of its program is, which
tensors it makes. A later call then takes the addresses of its arguments, makes the results and runs the program:

    recorded:  program(input 0 = memory of argument 2, numbers) -> output 0 = memory of result 0
    run again: addresses of the arguments, one new tensor per result, one launch

What is bound holds for arguments whose memory has the same layout; for others there is another recording. An argument
of which only parts are read (see `parts`) may begin anywhere in a storage of any size.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from habana_tf.torch.kernel import Drawn
from habana_tf.torch.launch import Launch, Watched, aligned
from habana_tf.torch.storage import Block, Memory


class _Met(NamedTuple):
    """An argument on the device as it was met: which it is, the contents of its block and its view of them. reach:
    where another call's may begin elsewhere in another block, the bytes that are read before its first element and from
    there on; None where it may not."""

    place: int
    contents: tuple[int, ...]
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    reach: tuple[int, int] | None = None


_view = functools.partial(torch.ops.aten.as_strided.default._op_dk, torch._C.DispatchKey.CPU)
"""A view for AOTAutograd, which keeps account of what is a view itself: past autograd and our kernel of it."""
_Storage = tuple[Any, ...]
"""What `Memory.tensor` takes for the first tensor of a new storage."""


class Bound:
    """A program with where its addresses come from. Made by `bind`.

    met: the arguments on the device, on so many `distinct` blocks; shared: pairs of them that are on one. storages:
    what `Memory.tensor` takes for new ones; scratch: bytes of what is memory for a run only; fixed: addresses of what
    the graph holds. inputs, outputs: places in the list of all these together; outside: those of outputs that may count
    as HBM for the first time. parts: the inputs that are parts of a block; shifted: these with the bytes before them in
    it; moved: those of an argument that may begin elsewhere, with the argument and the bytes from its first element on.
    results: each from the arguments and the tensors of `storages`. hosts, drawn: numbers that are not those of the
    recording.
    """

    def __init__(self, memory: Memory, launch: Launch | None) -> None:
        self.memory, self.launch = memory, launch
        self.met: list[_Met] = []
        self.distinct = 0
        self.shared: list[tuple[int, int]] = []
        self.fixed: list[int] = []
        self.scratch: list[int] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.shifted: list[tuple[int, int]] = []
        self.moved: list[tuple[int, int, int]] = []
        self.parts: tuple[int, ...] = ()
        self.outside: list[int] = []
        self.storages: list[_Storage] = []
        self.results: list[Callable[[Sequence[Any], list[torch.Tensor]], Any]] = []
        self.vectors: list[Any] = []
        self.vector_addresses: list[int] = []
        self.hosts: list[tuple[int, int, int]] = []
        self.drawn: list[tuple[int, Drawn]] = []

    def blocks(self, args: Sequence[Any]) -> list[Block] | None:
        """The block of each argument that is on the device; None where one has another layout than was bound."""
        known = self.memory.blocks
        found = []
        for place, contents, dtype, shape, strides, offset, reach in self.met:
            t = args[place]
            block = known.get(t.untyped_storage().data_ptr())
            if block is None or block.dtype is not dtype or t.shape != shape or t.stride() != strides:
                return None
            if reach is None:
                if block.shape != contents or t.storage_offset() != offset:
                    return None
            elif not reach[0] <= t.data_ptr() - block.address <= block.size - reach[1]:
                return None
            found.append(block)
        alike = len(set(map(id, found))) == self.distinct and all(found[a] is found[b] for a, b in self.shared)
        return found if alike else None

    def run(self, args: Sequence[Any], blocks: list[Block]) -> list[Any]:
        """The results. blocks: of the arguments. Raises what `Launch.run` raises, and torch.OutOfMemoryError."""
        memory = self.memory
        made: list[torch.Tensor] = []
        for storage in self.storages:
            t, block = memory.tensor(*storage)
            made.append(t)
            blocks.append(block)
        if self.launch is not None:
            scratch: list[Block] = []
            try:
                for size in self.scratch:
                    scratch.append(memory.workspace(size))
                blocks += scratch
                for k in self.outside:
                    if not blocks[k].counted:
                        memory.count(blocks[k])
                table = [block.address for block in blocks] + self.fixed
                inputs = [table[k] for k in self.inputs]
                for k, offset in self.shifted:
                    inputs[k] += offset
                for k, argument, offset in self.moved:
                    inputs[k] = args[argument].data_ptr() + offset
                if self.hosts or self.drawn:
                    self._read_numbers(args)
                self.launch.run(inputs + self.vector_addresses, [table[k] for k in self.outputs], self.parts)
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
    launch, read, offsets, written = watched.launches[0] if watched.launches else (None, [], {}, [])
    bound = Bound(memory, launch)
    owners: dict[int, int] = {}
    for k, t in enumerate(args):
        if isinstance(t, torch.Tensor) and t.device.type == "hpu":
            block = memory.of(t)
            owner = owners.setdefault(id(block), len(bound.met))
            if owner != len(bound.met):
                bound.shared.append((owner, len(bound.met)))
            bound.met.append(_Met(k, block.shape, block.dtype, tuple(t.shape), t.stride(), t.storage_offset()))
    bound.distinct = len(owners)
    if any(
        t.dtype is not memory.of(t).dtype for t in results if isinstance(t, torch.Tensor) and t.device.type == "hpu"
    ):
        return None  # a view of another type
    fixed = {id(memory.of(t)) for t in kept if t.device.type == "hpu"}
    fresh: dict[int, int] = {}
    for r in results:
        bound.results.append(_result(bound, r, owners, fixed, fresh, args))

    _place(bound, read, written, owners, fresh, fixed)
    _move(bound, offsets, [memory.of(args[m.place]) for m in bound.met], written)
    for numbers, dtype in zip(watched.numbers, (np.float32, np.int64), strict=True):
        assert isinstance(numbers, list)
        vector = aligned(len(numbers), dtype)
        vector[:] = numbers
        bound.vectors.append(vector)
        if numbers:
            bound.vector_addresses.append(vector.ctypes.data)
    for kind, number, host in watched.hosts:
        argument = next((k for k, a in enumerate(args) if a is host), None)
        if argument is None:
            return None
        bound.hosts.append((int(kind == "integer"), number, argument))
    bound.drawn = watched.drawn
    return bound


def _place(
    bound: Bound, read: Sequence[Block], written: Sequence[Block], owners: dict[int, int], fresh: dict[int, int],
    fixed: set[int],
) -> None:  # fmt: skip
    """Says where the addresses of a program come from. owners, fresh: by the identity of its block the place of an
    argument among those met, and of a storage; fixed: the identities of what the graph holds."""
    scratch: dict[int, int] = {}
    held: dict[int, int] = {}
    everything = [*read, *written]
    for block in everything:
        key = id(block)
        if key in fixed:
            held.setdefault(key, len(held))
        elif key not in owners and key not in fresh and key not in scratch:
            scratch[key] = len(scratch)
            bound.scratch.append(block.size)
    bound.fixed = [block.address for block in {id(b): b for b in everything if id(b) in held}.values()]
    kinds = owners, fresh, scratch, held
    ends = (0, len(bound.met), len(bound.met) + len(fresh), len(bound.met) + len(fresh) + len(scratch))

    def place(block: Block) -> int:
        return next(end + of[id(block)] for end, of in zip(ends, kinds, strict=True) if id(block) in of)

    bound.inputs, bound.outputs = [place(b) for b in read], [place(b) for b in written]
    bound.outside = [k for k in bound.outputs if k < ends[-1]]


def _move(bound: Bound, offsets: dict[int, int], blocks: Sequence[Block], written: Sequence[Block]) -> None:
    """Says which arguments may begin elsewhere: those with a block of their own of which the program reads parts only
    and writes nothing. offsets: bytes before each input that is a part; blocks: of the arguments."""
    bound.parts = tuple(offsets)
    inputs_of: dict[int, list[int]] = {}
    for k, at in enumerate(bound.inputs):
        inputs_of.setdefault(at, []).append(k)
    moving: set[int] = set()
    for at, (met, block) in enumerate(zip(bound.met, blocks, strict=True)):
        read = inputs_of.get(at, [])
        alone = sum(block is other for other in blocks) == 1 and not any(block is other for other in written)
        if not read or not alone or any(k not in offsets for k in read):
            continue
        assert bound.launch is not None
        begin, sizes = met.offset * met.dtype.itemsize, bound.launch.sizes
        starts = [(k, offsets[k] - begin) for k in read]
        before, after = max(0, *(-o for _, o in starts)), max(o + sizes[k] for k, o in starts)
        bound.met[at] = met._replace(reach=(before, after))
        bound.moved += [(k, met.place, o) for k, o in starts]
        moving.update(read)
    bound.shifted = [(k, offset) for k, offset in offsets.items() if k not in moving]


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
        met = bound.met[owners[id(block)]]
        owner, before = met.place, offset - met.offset
        return lambda args, made: _view(args[owner], shape, strides, args[owner].storage_offset() + before)
    if id(block) in fixed:
        return lambda args, made: r
    if id(block) in fresh:
        first = fresh[id(block)]
        return lambda args, made: _view(made[first], shape, strides, offset)
    k = fresh[id(block)] = len(bound.storages)
    if offset == 0:
        bound.storages.append((shape, strides, r.dtype, block.size, block.shape))
        return lambda args, made: made[k]
    flat = (block.size // block.dtype.itemsize,)
    bound.storages.append((flat, (1,), block.dtype, block.size, block.shape))
    return lambda args, made: _view(made[k], shape, strides, offset)
