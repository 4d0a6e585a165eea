"""Records all ops of a function in one go, from the second call on.

The recorder finds the program of a call op by op. But a graph of torch.compile, or an op on lists of tensors, adds the
same ops at each call. So only its first call is recorded op by op. `StretchNotes` notes which inputs, numbers and
results that adds to the program, as functions of the call's arguments; the `BoundStretch` that it makes of them adds
the same at later calls:

    . --(mm, input 0, input 1)--> . --(relu, value 0)--> .      node by node, the first time
    . ---------------(graph, argument 0, argument 1)---> .      from then on, to the same node

So a compiled graph is part of the program that is being recorded, with what comes before and after it. A stretch can be
repeated at the tree node where it was recorded, for arguments that have the same layout and are in the same state (read
before, to be written by the program, or neither); for others a second stretch is recorded. Arguments of which only
parts are read (`view_inputs`) may begin anywhere in a storage of any size.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from habana_tf.torch.memory.storage import Block, Memory
from habana_tf.torch.record.inputs import Inputs
from habana_tf.torch.record.loaded_program import LoadedProgram, Watched
from habana_tf.torch.record.overload import Drawn
from habana_tf.torch.record.tree import TreeNode

Value = tuple[int, int]


class _Met(NamedTuple):
    """What a tensor argument on the device has to be for the stretch to be repeated.

    argument: its position. contents, dtype: shape and type of its block's contents. shape, strides, offset: its view.
    value: the result of the program that its block is to hold, None for none. read: as which input of the program it
    was read before, -1 for none. reach: None where a later call's argument has to have the same contents and offset;
    else it may be anywhere in a block that has so many bytes (before, from) its first element.
    """

    argument: int
    contents: tuple[int, ...]
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    value: Value | None
    read: int
    reach: tuple[int, int] | None = None


class _PartRead(NamedTuple):
    """A part of a block that the stretch reads as an input by itself. at: the number of the block. offset: bytes from
    the block's begin to the part; where `moves` is an argument (not -1), from that argument's first element. known: as
    which input the program read the part before, -1 for none."""

    at: int
    offset: int
    shape: tuple[int, ...]
    moves: int
    known: int


_view = functools.partial(torch.ops.aten.as_strided.default._op_dk, torch._C.DispatchKey.CPU)
"""A view for AOTAutograd, which keeps account of what is a view itself: past autograd and our kernel of it."""
_Storage = tuple[Any, ...]
"""What `Memory.tensor` takes for the first tensor of a new storage."""


@dataclass
class BoundStretch:
    """What the ops of one call add to a program, with the call's arguments as parameters.

    Blocks have numbers, in this order: those of the arguments on the device (`met`), those of new tensors (`storages`),
    and those that only the program sees (`scratch`).

    node: the tree node that the stretch ends at.
    met: the arguments on the device; on `distinct` blocks, where `shared` pairs of them have the same block.
    storages: of each new tensor what `Memory.tensor` takes, and the value that it is to hold.
    scratch: bytes of each.
    parts: parts of blocks that are read.
    inputs: the program's new inputs, in order: a block's number, or -1 - k for number k of `parts`.
    written: (block, value) of arguments that are written.
    floats, integers: numbers that the ops read at run time. Of these, hosts: (kind, position, argument) of those that
    come in an argument, and drawn: (position, number) of those that are others at each call.
    results: functions of the arguments and of the new tensors, one for each result.
    """

    memory: Memory
    node: TreeNode
    met: list[_Met] = field(default_factory=list)
    distinct: int = 0
    shared: list[tuple[int, int]] = field(default_factory=list)
    storages: list[tuple[_Storage, Value | None]] = field(default_factory=list)
    scratch: list[int] = field(default_factory=list)
    parts: list[_PartRead] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    written: list[tuple[int, Value]] = field(default_factory=list)
    floats: list[float] = field(default_factory=list)
    integers: list[int] = field(default_factory=list)
    hosts: list[tuple[int, int, int]] = field(default_factory=list)
    drawn: list[tuple[int, Drawn]] = field(default_factory=list)
    results: list[Callable[[Sequence[Any], list[torch.Tensor]], Any]] = field(default_factory=list)
    launch: LoadedProgram | None = None
    """The program of the stretch by itself, once it has run."""

    @functools.cached_property
    def outputs(self) -> list[tuple[int, Value]]:
        """The blocks that it writes with their values, in the order of these."""
        first = len(self.met)
        fresh = [(first + k, value) for k, (_, value) in enumerate(self.storages) if value is not None]
        return sorted([*fresh, *self.written], key=lambda output: output[1])

    def wanted(self) -> tuple[tuple[Value, int], ...]:
        """What `TreeNode.recording` takes for it by itself."""
        return tuple((value, self.inputs.index(at) if at in self.inputs else -1) for at, value in self.outputs)

    def addresses(self, args: Sequence[Any], blocks: Sequence[Block]) -> tuple[list[int], tuple[int, ...]]:
        """Where its inputs begin, and which of them are parts."""
        found, parts = [], []
        for k, at in enumerate(self.inputs):
            if at < 0:
                parts.append(k)
            found.append(blocks[at].address if at >= 0 else self.address(self.parts[-1 - at], args, blocks))
        return found, tuple(parts)

    def run(self, args: Sequence[Any], blocks: list[Block], vectors: Sequence[Any]) -> list[Any]:
        """Runs it as a program by itself and returns the results. blocks: of the arguments; vectors: that hold the
        numbers meanwhile. Raises what `LoadedProgram.run` raises, and torch.OutOfMemoryError."""
        memory, made = self.memory, []
        for storage, _ in self.storages:
            t, block = memory.tensor(*storage)
            made.append(t)
            blocks.append(block)
        if self.outputs:
            scratch: list[Block] = []
            try:
                for size in self.scratch:
                    scratch.append(memory.workspace(size))
                blocks += scratch
                if self.launch is None:
                    read = [blocks[at if at >= 0 else self.parts[-1 - at].at] for at in self.inputs]
                    self.launch = LoadedProgram(self.node.recording(self.wanted()), memory, read)
                for k, _ in self.outputs:
                    memory.count(blocks[k])
                inputs, parts = self.addresses(args, blocks)
                inputs += self._numbers(args, vectors)
                for k, _ in self.written:
                    blocks[k].changes += 1
                self.launch.run(inputs, [blocks[k].address for k, _ in self.outputs], parts)
            finally:
                for block in scratch:
                    memory.release(block)
            memory.publish()
        return [result(args, made) for result in self.results]

    def _numbers(self, args: Sequence[Any], vectors: Sequence[Any]) -> list[int]:
        """Writes the numbers of a run into two vectors. Returns the addresses of those that are used."""
        numbers: list[list[Any]] = [list(self.floats), list(self.integers)]
        for kind, position, argument in self.hosts:
            numbers[kind][position] = args[argument].item()
        for position, number in self.drawn:
            numbers[1][position] = number.again()
        for vector, values in zip(vectors, numbers, strict=True):
            vector[: len(values)] = values
        return [vector.ctypes.data for vector, values in zip(vectors, numbers, strict=True) if values]

    def blocks(self, args: Sequence[Any], inputs: Inputs) -> list[Block] | None:
        """The block of each argument that is on the device; None where one has another layout or state than was
        bound. inputs: of the program so far."""
        known, reading = self.memory.blocks, self.memory.reading
        if any(args[argument].dim() for _, _, argument in self.hosts):
            return None
        found = []
        for argument, contents, dtype, shape, strides, offset, value, read, reach in self.met:
            t = args[argument]
            block = known.get(t.untyped_storage().data_ptr())
            if block is None or block.dtype is not dtype or t.shape != shape or t.stride() != strides:
                return None
            if block.value != value or (block.input if block.reader == reading else -1) != read:
                return None
            if reach is None:
                if block.shape != contents or t.storage_offset() != offset:
                    return None
            elif not reach[0] <= t.data_ptr() - block.address <= block.size - reach[1]:
                return None
            found.append(block)
        if len(set(map(id, found))) != self.distinct or any(found[a] is not found[b] for a, b in self.shared):
            return None
        for part in self.parts:
            if part.at >= len(found):
                continue
            if inputs.number_of_part(self.address(part, args, found), part.shape) != part.known:
                return None
        return found

    def address(self, part: _PartRead, args: Sequence[Any], blocks: Sequence[Block]) -> int:
        """Where a part begins."""
        first: int = blocks[part.at].address if part.moves < 0 else args[part.moves].data_ptr()
        return first + part.offset


class StretchNotes:
    """Notes what the recording of a call adds to a program. Made before the call. args: its arguments; tensors that a
    graph holds count as further ones."""

    def __init__(
        self, memory: Memory, inputs: Inputs, numbers: tuple[list[float], list[int]], args: Sequence[Any]
    ) -> None:
        self.memory, self.inputs, self.args, self.reading = memory, inputs, args, memory.reading
        self.marks = len(inputs.blocks), len(inputs.reads), len(numbers[0]), len(numbers[1])
        self.met: list[_Met] = []
        self.shared: list[tuple[int, int]] = []
        self.owners: dict[int, int] = {}
        self.plain = True
        """Whether every argument is of the type that its memory has, and none of a slice of a storage."""
        for k, t in enumerate(args):
            if isinstance(t, torch.Tensor) and t.device.type == "hpu":
                block = memory.of(t)
                owner = self.owners.setdefault(id(block), len(self.met))
                if owner != len(self.met):
                    self.shared.append((owner, len(self.met)))
                read = block.input if block.reader == memory.reading else -1
                view = tuple(t.shape), t.stride(), t.storage_offset()
                self.met.append(_Met(k, block.shape, block.dtype, *view, block.value, read))
                self.plain &= t.dtype is block.dtype and t.untyped_storage().data_ptr() == block.address

    def bind(
        self, node: TreeNode, numbers: tuple[list[float], list[int]], watched: Watched, results: Sequence[Any]
    ) -> BoundStretch | None:
        """Binds what was recorded up to `node`. results: what the call gave. None where another call need not come to
        the same: the program ended within, the host read or wrote a tensor, or a number came in a tensor of the CPU
        that is no argument."""
        on_device = [t for t in results if isinstance(t, torch.Tensor) and t.device.type == "hpu"]
        ended = self.memory.reading != self.reading
        if ended or watched.by_host or not self.plain or any(t.dtype is not self.memory.of(t).dtype for t in on_device):
            return None
        _, _, floats, integers = self.marks
        bound = BoundStretch(self.memory, node, self.met, len(self.owners), self.shared, drawn=watched.drawn)
        bound.floats, bound.integers = numbers[0][floats:], numbers[1][integers:]
        for kind, number, host in watched.hosts:
            argument = next((k for k, a in enumerate(self.args) if a is host), None)
            if argument is None:
                return None
            bound.hosts.append((int(kind == "integer"), number, argument))
        fresh: dict[int, int] = {}
        for r in results:
            bound.results.append(_result(bound, r, self.owners, fresh, self.args))
        places = {**self.owners, **{key: len(self.met) + k for key, k in fresh.items()}}
        self._inputs(bound, places)
        blocks = {id(block): block for block in (self.memory.of(self.args[met.argument]) for met in self.met)}
        for key, block in blocks.items():
            if block.value is not None and block.value != self.met[self.owners[key]].value:
                bound.written.append((self.owners[key], block.value))
        self._move(bound)
        return bound

    def _inputs(self, bound: BoundStretch, places: dict[int, int]) -> None:
        """Says where what the stretch reads comes from. places: of blocks, by identity."""
        blocks, reads = self.inputs.blocks, self.inputs.reads[self.marks[1] :]
        for block in [*blocks[self.marks[0] :], *(blocks[number] for _, _, number, _ in reads)]:
            if id(block) not in places:
                places[id(block)] = len(bound.met) + len(bound.storages) + len(bound.scratch)
                bound.scratch.append(block.size)
        first = {}
        for address, shape, number, new in reads:
            if new:
                first[number] = len(bound.parts)
            block = blocks[number]
            offset = address - block.address
            if new or number < self.marks[0]:
                bound.parts.append(_PartRead(places[id(block)], offset, shape, -1, -1 if new else number))
        for k in range(self.marks[0], len(blocks)):
            bound.inputs.append(-1 - first[k] if k in first else places[id(blocks[k])])

    def _move(self, bound: BoundStretch) -> None:
        """Says which arguments may begin elsewhere: those with a block of their own of which parts only are read and
        nothing is written."""
        whole = {at for at in bound.inputs if at >= 0} | {at for at, _ in bound.written}
        for at, met in enumerate(bound.met):
            parts = [k for k, part in enumerate(bound.parts) if part.at == at]
            alone = all(at not in pair for pair in self.shared)
            if not parts or not alone or at in whole or met.value is not None or met.read >= 0:
                continue
            begin, size = met.offset * met.dtype.itemsize, met.dtype.itemsize
            ends = []
            for k in parts:
                part = bound.parts[k]
                moved = bound.parts[k] = part._replace(offset=part.offset - begin, moves=met.argument)
                ends.append((moved.offset, moved.offset + size * functools.reduce(int.__mul__, part.shape, 1)))
            reach = max(0, *(-low for low, _ in ends)), max(high for _, high in ends)
            bound.met[at] = met._replace(reach=reach)


def _result(
    bound: BoundStretch, r: Any, owners: dict[int, int], fresh: dict[int, int], args: Sequence[Any]
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
        owner, before = met.argument, offset - met.offset
        return lambda args, made: _view(args[owner], shape, strides, args[owner].storage_offset() + before)
    if id(block) in fresh:
        first = fresh[id(block)]
        return lambda args, made: _view(made[first], shape, strides, offset)
    k = fresh[id(block)] = len(bound.storages)
    if offset == 0 and r.numel() * r.element_size() == block.size:
        bound.storages.append(((shape, strides, r.dtype, block.size, block.shape), block.value))
        return lambda args, made: made[k]
    flat = (block.size // block.dtype.itemsize,)
    bound.storages.append(((flat, (1,), block.dtype, block.size, block.shape), block.value))
    return lambda args, made: _view(made[k], shape, strides, offset)
