"""What the recorded program reads: whole storages, and parts of them (`view_inputs`), each an input with an address."""

from __future__ import annotations

import torch

from habana_tf.torch.memory.storage import Block, Memory
from habana_tf.torch.record.overload import EntryOperand, PartOfStorage
from habana_tf.torch.record.view_inputs import part


class Inputs:
    """blocks: that of each input; offsets: of the inputs that are parts the bytes before them in their blocks. reads:
    each time that a part was read, its address, its shape, as which input, and whether for the first time."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.blocks: list[Block] = []
        self.offsets: dict[int, int] = {}
        self.reads: list[tuple[int, tuple[int, ...], int, bool]] = []
        self._parts: dict[tuple[int, tuple[int, ...]], int] = {}

    def whole(self, block: Block) -> EntryOperand:
        """A block of which all is read, as it stands in an entry: with its contents the first time."""
        if block.reader != self._memory.reading:
            block.reader, block.input = self._memory.reading, -1
        if block.input >= 0:
            return (-1, block.input)
        block.input = len(self.blocks)
        self.blocks.append(block)
        return (-1, block.input, block.shape, block.dtype)

    def part(self, t: torch.Tensor, offset: int, block: Block) -> EntryOperand | None:
        """A view as it stands in an entry, whose part of a block is an input by itself; None where it is none. offset:
        of the view in the block, in elements."""
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
        """As which input a part is read; -1 where it is not."""
        return self._parts.get((address, shape), -1)

    def add_part(self, block: Block, address: int, shape: tuple[int, ...]) -> int:
        """Makes a part of a block an input. Returns which."""
        if block.reader != self._memory.reading:
            block.reader, block.input = self._memory.reading, -1
        number = self._parts[address, shape] = len(self.blocks)
        self.blocks.append(block)
        self.offsets[number] = address - block.address
        return number

    def addresses(self) -> list[int]:
        """Where they begin."""
        found = [block.address for block in self.blocks]
        for number, offset in self.offsets.items():
            found[number] += offset
        return found

    def undo(self, count: int) -> None:
        """Forgets all but the first ones."""
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
        """Begins another program."""
        self.blocks = []
        self.offsets = {}
        self.reads = []
        self._parts.clear()
