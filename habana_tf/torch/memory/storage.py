"""Memory of the simulated card: blocks of host memory for tensors, counted against the card's HBM.

A tensor of the device is a plain PyTorch tensor on an address of a block. It comes in a DLPack capsule. When its
storage dies PyTorch calls the capsule's deleter, on any thread; the deleter only notes the address
(kernels/bridge/addresses.cc), and `Memory.collect` takes the block back.

A new block has an address and nothing else. Its pages are touched, and its bytes counted, when a program or a copy
first writes it. So what exists only inside a recorded program takes no HBM, as on a card.

Freed blocks are kept by size for later tensors, as PyTorch's own caching allocator does. `reserved` counts what was
written and not given back to the host, `allocated` the part of it that tensors use.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import mmap
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from habana_tf._native import _bridge
from habana_tf.torch.memory.element_types import DLPACK

_ALIGNMENT = 512
_LARGE = 1 << 20
"""Bytes from which a block gets a mapping of its own, in steps of `_STEP`."""
_STEP = 1 << 21
_SEGMENT = 1 << 24
"""Bytes of a mapping that small blocks are cut from."""
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
_EXTENSION, _HOST = 12, 1
"""DLPack's kDLExtDev, which is PyTorch's PrivateUse1, and kDLCPU."""

Shape = tuple[int, ...]


class Block:
    """The memory of one storage.

    size: bytes that its tensors ask for. room: bytes that it has.
    shape, dtype: of its contents, in row-major order from the first byte on.
    counted: whether it counts as HBM.
    value: the result of the recorded program that it is to hold; None where its memory is up to date.
    reader: the number of the last recorded program that reads it. input: the number of its input in that program, -1
    where the program reads only parts of it (`record.view_inputs`).
    lent: whether a tensor uses it. held: how many HPU graphs keep it.
    changes: how often something was written into it, beside the results of ops as new tensors, or it was taken back.
    """

    __slots__ = (
        "address", "changes", "counted", "dtype", "held", "input", "lent", "reader", "room", "shape", "size", "value",
    )  # fmt: skip

    def __init__(self, address: int, room: int) -> None:
        self.address, self.room = address, room
        self.size = 0
        self.counted = False
        self.shape: Shape = ()
        self.dtype: torch.dtype = torch.uint8
        self.value: tuple[int, int] | None = None
        self.reader = self.input = -1
        self.lent = False
        self.held = 0
        self.changes = 0

    def holds(self, t: torch.Tensor) -> None:
        """Says that its contents are of a tensor's type from now on."""
        self.dtype = t.dtype
        whole = t.is_contiguous() and t.numel() * t.element_size() == self.size
        self.shape = tuple(t.shape) if whole else (self.size // t.element_size(),)

    def viewed(self, t: torch.Tensor) -> torch.Tensor:
        """A tensor of the CPU on the same memory as a tensor of this block."""
        if t.dtype not in DLPACK:  # a view of another type is PyTorch's own making
            raise TypeError(f"HPU has no tensors of {t.dtype}")
        code, bits = DLPACK[t.dtype]
        capsule = _bridge.lend(t.data_ptr(), _HOST, code, bits, t.shape, t.stride(), False)
        made: torch.Tensor = torch._C._from_dlpack(capsule)
        return made

    def host(self) -> torch.Tensor:
        """Its bytes as a tensor of the CPU, on the same memory."""
        capsule = _bridge.lend(self.address, _HOST, 1, 8, (self.size,), (1,), False)
        bytes_: torch.Tensor = torch._C._from_dlpack(capsule)
        return bytes_


@dataclass
class Statistics:
    """Bytes of HBM that tensors use and that were not given back to the host, now and at most; how often memory ran
    out."""

    allocated: int = 0
    peak: int = 0
    reserved: int = 0
    reserved_peak: int = 0
    retries: int = 0
    failures: int = 0


class Memory:
    """The blocks of one card. Used under the recorder's lock."""

    def __init__(self, capacity: int, first_use: Callable[[], object] = lambda: None) -> None:
        """first_use: is called before the first block is made; what it raises stops that."""
        self.capacity = capacity
        self._first_use = first_use
        self.statistics = Statistics()
        self.blocks: dict[int, Block] = {}
        self._free: defaultdict[int, list[Block]] = defaultdict(list)
        self._mappings: list[mmap.mmap] = []
        self._dropped: deque[Block] = deque()
        self._at = self._end = 0
        self.reading = 0
        """The number of the program that is recorded. What it is to read is not given to others."""
        self._published = 0

    @property
    def used(self) -> bool:
        """Whether there was a block."""
        return bool(self._mappings)

    # -- blocks -------------------------------------------------------------------------------------------

    def tensor(
        self, shape: Shape, strides: Shape, dtype: torch.dtype, nbytes: int, order: Shape
    ) -> tuple[torch.Tensor, Block]:
        """A new tensor and its block. nbytes: of its storage, which holds elements of the shape `order`, row by row."""
        block = self._take(nbytes)
        block.shape, block.dtype, block.size = order, dtype, nbytes
        code, bits = DLPACK[dtype]
        capsule = _bridge.lend(block.address, _EXTENSION, code, bits, shape, strides, True)
        return torch._C._from_dlpack(capsule), block

    def of(self, t: torch.Tensor) -> Block:
        """The block under a tensor of the device."""
        address = t.untyped_storage().data_ptr()
        return self.blocks.get(address) or self._around(address)

    def contents(self, t: torch.Tensor) -> tuple[Any, ...]:
        """What is equal later only if nothing has written a tensor of the device since, by this tensor or by another on
        its memory. PyTorch's own count (`_version`) misses what is written through `t.data`."""
        block = self.of(t)
        return block, block.changes, t.dtype, t.data_ptr(), t.shape, t.stride()

    def _around(self, address: int) -> Block:
        """The block that a storage lies within, as the storage of a slice does."""
        for block in self.blocks.values():
            if block.address < address < block.address + block.room:
                return block
        return self.blocks[address]  # a KeyError

    def workspace(self, nbytes: int) -> Block:
        """A counted block for a launch, which no tensor has. `release` takes it back."""
        block = self._take(nbytes)
        block.size = nbytes
        self.count(block)
        return block

    def unseen(self, nbytes: int) -> Block:
        """A block for a result that no tensor has, within the program that is recorded."""
        block = self._take(nbytes)
        block.size, block.lent = nbytes, False
        return block

    def release(self, block: Block) -> None:
        """Takes a block back, unless an HPU graph keeps it."""
        if block.held:
            block.lent = False
            return
        self.blocks.pop(block.address, None)
        block.value, block.lent = None, False
        block.changes += 1
        if block.counted:
            self.statistics.allocated -= block.room
        self._free[block.room].append(block)

    def _take(self, nbytes: int) -> Block:
        room = _room(nbytes)
        if room > self.capacity:
            raise self._full(nbytes)
        kept = self._free.get(room)
        block = kept.pop() if kept else Block(self._address(room), room)
        if block.counted:
            self._allocated(room)
        block.lent = True
        self.blocks[block.address] = block
        return block

    def count(self, block: Block) -> None:
        """Counts a block as HBM before it is first written. Raises torch.OutOfMemoryError where the card is full."""
        if block.counted:
            return
        if self.statistics.reserved + block.room > self.capacity or block.room > self._host_has(block.room):
            self.statistics.retries += 1
            gc.collect()
            self.collect()
            self.empty_cache()
        if self.statistics.reserved + block.room > self.capacity:
            raise self._full(block.size)
        if block.room > (available := self._host_has(block.room)):
            raise self._full_host(block.size, available)
        block.counted = True
        self.statistics.reserved += block.room
        self.statistics.reserved_peak = max(self.statistics.reserved_peak, self.statistics.reserved)
        self._allocated(block.room)

    def _allocated(self, nbytes: int) -> None:
        self.statistics.allocated += nbytes
        self.statistics.peak = max(self.statistics.peak, self.statistics.allocated)

    def collect(self) -> None:
        """Takes back the blocks whose tensors are gone, but for those that the recorded program reads, which `release`
        takes."""
        self.died(_bridge.dead_tensors())

    def died(self, addresses: Iterable[int]) -> None:
        """As `collect`, of the blocks at these addresses."""
        for address in addresses:
            block = self.blocks.get(address)
            if block is not None:
                block.lent = False
                if block.reader != self.reading:
                    self.release(block)
        while self._dropped:
            block = self._dropped.popleft()
            block.held -= 1
            if not block.held and not block.lent and block.reader != self.reading:
                self.release(block)

    def hold(self, block: Block) -> None:
        """Keeps a block from being used for other tensors."""
        block.held += 1

    def unhold(self, blocks: list[Block]) -> None:
        """Takes `hold` back, at the next `collect`. May be called by the garbage collector at any time."""
        self._dropped.extend(blocks)

    def publish(self) -> None:
        """Tells `hl-smi` how much of the card is taken."""
        if self._published != self.statistics.reserved:
            self._published = self.statistics.reserved
            _bridge.set_device_bytes(self._published)

    def empty_cache(self) -> None:
        """Gives the pages of free blocks back to the host."""
        for kept in self._free.values():
            for block in kept:
                self._discard(block)
        self.publish()

    def discard(self, block: Block) -> None:
        """Gives the pages of a tensor's block back to the host: its contents are lost, and it takes no HBM until it is
        written again."""
        if block.counted:
            self.statistics.allocated -= block.room
        self._discard(block)
        self.publish()

    def refilled(self, block: Block) -> None:
        """A storage whose block was discarded has its size again. It takes HBM when it is written."""

    def _discard(self, block: Block) -> None:
        if not block.counted:
            return
        page = mmap.PAGESIZE
        block.counted = False
        self.statistics.reserved -= block.room
        if block.room >= page:
            first = -(-block.address // page) * page
            _advise(first, (block.address + block.room - first) // page * page)

    # -- the host's memory --------------------------------------------------------------------------------

    def _address(self, room: int) -> int:
        if room >= _LARGE:
            return self._map(room)
        if self._at + room > self._end:
            self._at = self._map(_SEGMENT)
            self._end = self._at + _SEGMENT
        self._at += room
        return self._at - room

    def _map(self, nbytes: int) -> int:
        """The address of new pages, which take memory when they are touched."""
        if not self._mappings:
            self._first_use()
        pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        self._mappings.append(pages)
        return ctypes.addressof(ctypes.c_char.from_buffer(pages))

    def _host_has(self, nbytes: int) -> int:
        """Bytes that the host has free. Not asked for a small block, because asking takes 50 us."""
        return nbytes if nbytes < _SEGMENT else int(_bridge.host_memory()[1])

    def _full_host(self, nbytes: int, available: int) -> torch.OutOfMemoryError:
        self.statistics.failures += 1
        return torch.OutOfMemoryError(
            f"HPU out of memory: host memory. Tried to allocate {_text(nbytes)}; the simulated card has "
            f"{_text(self.capacity)}, but this host has {_text(available)} free."
        )

    def _full(self, nbytes: int) -> torch.OutOfMemoryError:
        self.statistics.failures += 1
        s = self.statistics
        return torch.OutOfMemoryError(
            f"HPU out of memory. Tried to allocate {_text(nbytes)}. HPU 0 has a total capacity of "
            f"{_text(self.capacity)} of which {_text(self.capacity - s.reserved)} is free. Of the allocated memory "
            f"{_text(s.allocated)} is allocated by PyTorch, and {_text(s.reserved - s.allocated)} is reserved by "
            "PyTorch but unallocated."
        )


@functools.lru_cache(maxsize=4096)
def address(t: torch.Tensor) -> int:
    """Where a tensor of the device begins in the card's memory; 0 of one without elements and of other devices."""
    return t.data_ptr() if t.device.type == "hpu" and t.numel() else 0


def _room(nbytes: int) -> int:
    """The bytes of the block that a storage gets: few different sizes, so that freed ones fit again."""
    if nbytes >= _LARGE:
        return -(-nbytes // _STEP) * _STEP
    if nbytes <= _ALIGNMENT:
        return _ALIGNMENT
    step = max(_ALIGNMENT, 1 << ((nbytes - 1).bit_length() - 3))
    return -(-nbytes // step) * step


def _text(nbytes: int) -> str:
    """Bytes in PyTorch's words."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if nbytes >= unit:
            return f"{nbytes / unit:.2f} {name}"
    return f"{nbytes} bytes"


def _advise(address: int, nbytes: int) -> None:
    """Has the host take pages back."""
    if nbytes > 0:
        ctypes.CDLL(None).madvise(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), 4)  # MADV_DONTNEED
