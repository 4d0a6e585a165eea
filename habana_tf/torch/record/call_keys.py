"""Makes the entry of a call: the key of an edge in the tree of recordings (see `recorder`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from habana_tf.torch.memory.storage import Block, Memory
from habana_tf.torch.record.host_operands import HostOperand
from habana_tf.torch.record.inputs import Inputs
from habana_tf.torch.record.loaded_program import Watched
from habana_tf.torch.record.overload import WHOLE, Drawn, EntryOperand, NotRecorded, Number, Overload, Unsettled


class Entries:
    """Makes entries, and notes the inputs and run-time numbers that the calls read. inputs: of the program that is
    recorded. draws: how many `Drawn` numbers were read. watched: the notes of the capture or the stretch that is under
    way; None without one."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.inputs = Inputs(memory)
        self.draws = 0
        self._blocks = memory.blocks
        self._numbers: tuple[list[float], list[int]] = ([], [])
        self.watched: Watched | None = None
        self._targets: set[Block] = set()
        self._overlaps = False
        self._strides: list[tuple[int, ...]] = []
        """Of operands with axes of one element: results follow them, and the rest of an entry leaves them out."""

    def _entry(self, kernel: Overload, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The entry of a call: the overload, then what decides the meaning of each argument."""
        default = torch.get_default_dtype()  # decides what integers and a float, or their quotient, are
        slots: list[Any] = [kernel.row.name if default is torch.float32 else (kernel.row.name, default)]
        runtime, targets, operand, tensor = kernel.runtime, kernel.targets, self._operand, torch.Tensor
        literal, self._overlaps, self._strides = kernel.row.literal, False, []
        if self._targets:
            self._targets = set()
        for k, a in enumerate(args):
            if isinstance(a, tensor):
                slots.append(operand(a, k in targets) if k or not kernel.row.drops else self._overwritten(a))
            elif (
                k in runtime and isinstance(a, (int, float)) and not (literal and literal(a)) and _fits(a, kernel, args)
            ):
                slots.append(self._scalar(a))
            else:
                slots.append(self.other(a, k in targets))
        for name, a in kwargs.items():
            slots.append(name)
            number = name in kernel.row.runtime and isinstance(a, (int, float))
            if number and not (literal and literal(a)) and _fits(a, kernel, args):
                slots.append(self._scalar(a))
            else:
                slots.append(operand(a, name in targets) if isinstance(a, tensor) else self.other(a, name in targets))
        if self._overlaps and kernel.row.drops and slots[1][0] == WHOLE:  # the places of both decide if it is right
            slots[1] = operand(args[0], True)
        if self._strides:
            slots[0] = (slots[0], *self._strides)
        return tuple(slots)

    def other(self, a: Any, written: bool = False) -> Any:
        """An argument that is no tensor, as it stands in an entry. Floats are compared by their text, so that 0.0 is
        not -0.0 and NaN is NaN; integers with their type, so that 0 is not False."""
        if isinstance(a, (list, tuple)):
            return tuple(self._operand(x, written) if isinstance(x, torch.Tensor) else self.other(x) for x in a)
        if isinstance(a, float):
            return "float", repr(a)
        return (type(a).__name__, a) if isinstance(a, int) else a

    def _operand(self, t: torch.Tensor, written: bool) -> EntryOperand:
        """A tensor as it stands in an entry: the contents of its storage; with shape, strides and offset where it is
        not all of them."""
        block, offset = self._blocks.get(t.untyped_storage().data_ptr()), t.storage_offset()
        if block is None:
            if t.device.type != "hpu":
                return self._of_host(t, written)
            block, offset = self._around(t)
        value: Any = block.value
        if t.dtype is not block.dtype:
            if value is not None or block.reader == self.memory.reading:
                raise Unsettled
            block.holds(t)
        shape = t.shape
        if 1 in shape:
            self._strides.append(t.stride())
        whole = shape == block.shape and t.is_contiguous()
        if written:
            self._targets.add(block)
        elif block in self._targets:
            written = self._overlaps = True
        if value is None:
            if not whole and not written and (found := self.inputs.part(t, offset, block)) is not None:
                return found
            value = self.inputs.whole(block)
        return value if whole else (value, tuple(shape), t.stride(), offset)

    def _around(self, t: torch.Tensor) -> tuple[Block, int]:
        """The block that a slice of a storage lies in, and how many elements of the block come before a tensor of the
        slice."""
        block = self.memory.of(t)
        offset, rest = divmod(t.data_ptr() - block.address, t.element_size())
        if rest:
            raise NotRecorded("it begins within an element of the storage that it is a slice of")
        return block, offset

    def _overwritten(self, t: torch.Tensor) -> EntryOperand:
        """A tensor that the call overwrites as a whole. Where it is all of its storage, its old contents are not
        read."""
        block = self.memory.of(t)
        unread = block.value is None and block.reader != self.memory.reading
        if unread and t.dtype is not block.dtype and t.is_contiguous() and t.nbytes == block.size:
            block.holds(t)
        if t.dtype is block.dtype and t.shape == block.shape and t.is_contiguous():
            self._targets.add(block)
            return (WHOLE, block.shape, block.dtype)
        return self._operand(t, True)

    def _of_host(self, t: torch.Tensor, written: bool) -> EntryOperand:
        """A tensor of the CPU: a number, where it has no dimension. Raises HostOperand for others, which have to be
        copied first, and RuntimeError for one that is written."""
        if written or t.device.type != "cpu":
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, hpu:0 and {t.device}!"
            )
        if t.dim():
            raise HostOperand
        number = self._scalar(t.item(), t.dtype)
        if self.watched is not None:
            self.watched.hosts.append((number.kind, number.position, t))
        return number

    def _scalar(self, a: Any, dtype: torch.dtype | None = None) -> Number:
        """Adds a number that is read at run time. A boolean stays one in its dtype, because types of results may follow
        from it."""
        if isinstance(a, float):
            self._numbers[0].append(a)
            return Number("float", len(self._numbers[0]) - 1, dtype)
        self._numbers[1].append(a)
        if type(a) is Drawn:
            self.draws += 1
            if self.watched is not None:
                self.watched.drawn.append((len(self._numbers[1]) - 1, a))
        return Number("integer", len(self._numbers[1]) - 1, torch.bool if type(a) is bool else dtype)

    def _undo(self, inputs: int, floats: int, integers: int) -> None:
        """Forgets what a call has read that is not recorded after all. inputs, floats, integers: how many there were
        before it."""
        self.inputs.undo(inputs)
        del self._numbers[0][floats:], self._numbers[1][integers:]
        if self.watched is not None:
            self.watched.undo(floats, integers)


_LIMITS = {
    **{t: (torch.finfo(t).min, torch.finfo(t).max) for t in (torch.float32, torch.bfloat16)},
    **{t: (torch.iinfo(t).min, torch.iinfo(t).max)
       for t in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)},
}  # fmt: skip


def _fits(a: float, kernel: Overload, args: Sequence[Any]) -> bool:
    """Whether a number is in the range of the first tensor's type. If not, it is compiled in, not read at run time:
    then the call is a new one, and PyTorch's CPU is asked whether it takes the number, which some ops refuse."""
    first = args[0] if args else None
    if not isinstance(first, torch.Tensor):
        return True
    limits = _LIMITS.get(first.dtype)
    if limits is None or limits[0] <= a <= limits[1] or "::" in kernel.row.name:
        return True
    return first.dtype.is_floating_point and not math.isfinite(a)
