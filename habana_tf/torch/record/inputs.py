"""The inputs of the program that is recorded: whole storages, and parts of storages (`view_inputs`). A launch gets an
address for each."""

from __future__ import annotations

import torch

from habana_tf.torch.memory.storage import Block, Memory
from habana_tf.torch.record.overload import EntryOperand, PartOfStorage
from habana_tf.torch.record.view_inputs import part


class Inputs:
    """blocks: the block of each input. offsets: of an input that is a part, the bytes before it in its block. reads: of
    each time that a part was read, its address, its shape, the number of its input, and whether it became an input by
    that."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.blocks: list[Block] = []
        self.offsets: dict[int, int] = {}
        self.reads: list[tuple[int, tuple[int, ...], int, bool]] = []
        self._parts: dict[tuple[int, tuple[int, ...]], int] = {}

    def whole(self, block: Block) -> EntryOperand:
        """Reads all contents of a block, as an input or again. Returns its operand in an entry, which says shape and
        type the first time."""
        if block.reader != self._memory.reading:
            block.reader, block.input = self._memory.reading, -1
        if block.input >= 0:
            return (-1, block.input)
        block.input = len(self.blocks)
        self.blocks.append(block)
        return (-1, block.input, block.shape, block.dtype)

    def part(self, t: torch.Tensor, offset: int, block: Block) -> EntryOperand | None:
        """Reads a view by its part of a block, as an input by itself. Returns its operand in an entry; None where it
        has no such part. offset: of the view in the block, in elements."""
        size = block.dtype.itemsize
        geometry = tuple(t.shape), t.stride(), offset
        found = part(block.size // size, geometry) if t.numel() else None
        if found is None:
            return None
        first, shape, view = found
        address = block.address + first * size
        number = self.number_of_part(address, shape)
        new = number < 0
        if new:
            number = self.add_part(block, address, shape)
        self.reads.append((address, shape, number, new))
        contents = PartOfStorage(-1, number, shape, block.dtype, new)
        return contents if view is None else (contents, *view)

    def number_of_part(self, address: int, shape: tuple[int, ...]) -> int:
        """The number of the input that is this part; -1 where none is."""
        return self._parts.get((address, shape), -1)

    def add_part(self, block: Block, address: int, shape: tuple[int, ...]) -> int:
        """Makes a part of a block an input. Returns its number."""
        if block.reader != self._memory.reading:
            block.reader, block.input = self._memory.reading, -1
        number = self._parts[address, shape] = len(self.blocks)
        self.blocks.append(block)
        self.offsets[number] = address - block.address
        return number

    def addresses(self) -> list[int]:
        """The address of each."""
        found = [block.address for block in self.blocks]
        for number, offset in self.offsets.items():
            found[number] += offset
        return found

    def undo(self, count: int) -> None:
        """Forgets all but the first `count` inputs."""
        if len(self.blocks) == count:
            return
        for block in self.blocks[count:]:
            block.reader = -1
            if block.input >= count:
                block.input = -1
        del self.blocks[count:]
        for block in self.blocks:
            block.reader = self._memory.reading
        self.offsets = {number: offset for number, offset in self.offsets.items() if number < count}
        self._parts = {key: number for key, number in self._parts.items() if number < count}
        self.reads = [read for read in self.reads if read[2] < count]

    def clear(self) -> None:
        """Forgets all, for the next program."""
        self.blocks = []
        self.offsets = {}
        self.reads = []
        self._parts.clear()
