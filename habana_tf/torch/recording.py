"""Lazy mode: ops of PyTorch are recorded, and become one program when a step ends or the host reads a result.

A training step records the same ops again and again, so recordings are a tree: a node is what was recorded so far, and
an edge is one op with all that its meaning depends on: the overload, which values it reads, their shapes the first time
they appear, numbers that are no run-time inputs. To record an op that was met before is to make a tuple, look it up
and make the tensors that the node says; to end a step is to look the results that are still wanted up at its last node.

    root --(mm, input 0 [8,4], input 1 [4,2])--> . --(relu_, value 0)--> .   ends here: {outputs: program}

Everything slow happens once per node: PyTorch's meta kernels say shapes and refuse wrong arguments, and the lowering is
rehearsed, so that an op without one goes to the CPU when it is called and not when the program is compiled.

In eager mode each op is a program by itself, but for ops on lists of tensors, of which a step of an optimizer is made:
these wait for each other, since all of them together pass through memory once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from habana_tf.torch.first_call import step_of
from habana_tf.torch.inputs import Inputs
from habana_tf.torch.kernel import MOST_NUMBERS, WHOLE, Drawn, Kernel, NotRecorded, Number, Operand, tensor_at
from habana_tf.torch.launch import Launch, Watched, aligned
from habana_tf.torch.step import Step
from habana_tf.torch.storage import Block, Memory

MOST_OPS = 20_000
"""Ops that a program may have; a recording ends after so many."""
MOST_STEPS = 200_000
"""Nodes of the tree before it is begun anew."""
_MOST_OF_AN_OP = 64
"""Numbers that one op may read."""
_FULL = MOST_NUMBERS - _MOST_OF_AN_OP


class Recorder:
    """The recording of one card. lazy: whether ops wait for `flush`. unrun: what notes copies and ops on the CPU where
    nothing is run (see `torch.unrun`)."""

    def __init__(self, memory: Memory, lazy: bool) -> None:
        self.memory, self.lazy = memory, lazy
        self.unrun: Any = None
        self.lock = threading.RLock()
        self.programs = 0
        self.host_uses = 0
        self.draws = 0
        self._watched: Watched | None = None
        self._root = self._step = Step(-1)
        self._steps = 0
        self._together = 0
        self._inputs = Inputs(memory)
        self._pending: dict[int, Block] = {}
        self._numbers: tuple[list[float], list[int]] = ([], [])
        self._vectors = [aligned(MOST_NUMBERS, dtype) for dtype in (np.float32, np.int64)]
        self._addresses = [vector.ctypes.data for vector in self._vectors]
        self._blocks = memory.blocks

    # -- recording ----------------------------------------------------------------------------------------

    def record(self, kernel: Kernel, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Records a call of an overload. Returns its results, whose values are there after `flush`. Raises NotRecorded
        for a call that no program can have, and what PyTorch raises for wrong arguments."""
        with self.lock:
            waits = self.lazy or self._together
            if not waits and self._step is not self._root:
                self.flush()
            before, marks = self._step, (len(self._inputs.blocks), len(self._numbers[0]), len(self._numbers[1]))
            try:
                entry = self._entry(kernel, args, kwargs)
                step = self._step.then.get(entry)
                if step is None:
                    step = self._new(kernel, entry, args, kwargs)
                if step.refused:
                    raise NotRecorded(step.refused)
                new = [None if fresh is None else self.memory.tensor(*fresh) for fresh in step.fresh]
                self._step = step
            except BaseException:
                self._step = before
                self._undo(*marks)
                raise
            made = self._results(step, new, args, kwargs)
            floats, integers = self._numbers
            if not waits or step.index >= MOST_OPS or len(floats) > _FULL or len(integers) > _FULL:
                self.flush()
            return made

    def _entry(self, kernel: Kernel, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All that a call's meaning depends on."""
        slots: list[Any] = [kernel.row.name]
        runtime, targets, operand, tensor = kernel.runtime, kernel.targets, self._operand, torch.Tensor
        for k, a in enumerate(args):
            if isinstance(a, tensor):
                slots.append(operand(a, k in targets) if k or not kernel.row.drops else self._overwritten(a))
            elif k in runtime and isinstance(a, (int, float)):
                slots.append(self._scalar(a))
            else:
                slots.append(self._other(a, k in targets))
        for name, a in kwargs.items():
            slots.append(name)
            if name in kernel.row.runtime and isinstance(a, (int, float)):
                slots.append(self._scalar(a))
            else:
                slots.append(operand(a, name in targets) if isinstance(a, tensor) else self._other(a, name in targets))
        return tuple(slots)

    def _other(self, a: Any, written: bool = False) -> Any:
        """An argument that is no tensor, as it stands in an entry. False is not 0 there, 0.0 not -0.0, NaN is NaN."""
        if isinstance(a, (list, tuple)):
            return tuple(self._operand(x, written) if isinstance(x, torch.Tensor) else self._other(x) for x in a)
        if isinstance(a, float):
            return "float", repr(a)
        return (type(a).__name__, a) if isinstance(a, int) else a

    def _operand(self, t: torch.Tensor, written: bool) -> Operand:
        """A tensor as it stands in an entry: the contents of its storage, and its view of them where it is no whole."""
        block = self._blocks.get(t.untyped_storage().data_ptr())
        if block is None:
            return self._of_host(t)
        value: Any = block.value
        if t.dtype is not block.dtype:
            if value is not None or block.reader == self.memory.reading:
                raise NotRecorded("a tensor views memory as another type")
            block.holds(t)
        shape = t.shape
        whole = shape == block.shape and t.is_contiguous()
        if value is None:
            if not whole and not written and (found := self._inputs.part(t, block)) is not None:
                return found
            value = self._inputs.whole(block)
        return value if whole else (value, tuple(shape), t.stride(), t.storage_offset())

    def _overwritten(self, t: torch.Tensor) -> Operand:
        """A tensor of which all is replaced: where it is all of its storage, its old contents are no input."""
        block = self.memory.of(t)
        if t.dtype is block.dtype and t.shape == block.shape and t.is_contiguous():
            return (WHOLE, block.shape, block.dtype)
        return self._operand(t, True)

    def _of_host(self, t: torch.Tensor) -> Operand:
        """A tensor of the CPU: a number, or a mistake."""
        if t.dim():
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, hpu:0 and {t.device}!"
            )
        number = self._scalar(t.item(), t.dtype)
        if self._watched is not None:
            self._watched.hosts.append((number.kind, number.place, t))
        return number

    def _scalar(self, a: Any, dtype: torch.dtype | None = None) -> Number:
        """A number that is read at run time. A boolean is one by its type, of which that of a result may follow."""
        if isinstance(a, float):
            self._numbers[0].append(a)
            return Number("float", len(self._numbers[0]) - 1, dtype)
        self._numbers[1].append(a)
        if type(a) is Drawn:
            self.draws += 1
            if self._watched is not None:
                self._watched.drawn.append((len(self._numbers[1]) - 1, a))
        return Number("integer", len(self._numbers[1]) - 1, torch.bool if type(a) is bool else dtype)

    def _undo(self, inputs: int, floats: int, integers: int) -> None:
        """Forgets what a call that is not recorded has read."""
        self._inputs.undo(inputs)
        del self._numbers[0][floats:], self._numbers[1][integers:]
        if self._watched is not None:
            self._watched.undo(floats, integers)

    def _new(self, kernel: Kernel, entry: tuple[Any, ...], args: Sequence[Any], kwargs: dict[str, Any]) -> Step:
        self._steps += 1
        step = step_of(self._step, kernel, entry, args, kwargs, self.memory)
        self._step.then[entry] = step
        return step

    def _results(
        self, step: Step, new: Sequence[tuple[torch.Tensor, Block] | None], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        """New tensors, and arguments that were written; their blocks get values of the program."""
        memory, index = self.memory, step.index
        made: list[Any] = []
        for k, each in enumerate(new):
            if each is None:
                made.append(None)
                continue
            t, block = each
            block.value = index, k
            self._pending[block.address] = block
            made.append(t)
        if step.plain:
            return made[0]
        for k, where in enumerate(step.written):
            block = memory.of(tensor_at(where, args, kwargs))
            block.value = (index, len(step.fresh) + k)
            self._pending[block.address] = block
        for where in step.returned:
            made.append(tensor_at(where, args, kwargs))
        return made[0] if step.single else tuple(made)

    @property
    def waiting(self) -> bool:
        """Whether something is recorded that has not run."""
        return self._step is not self._root

    def collect(self) -> None:
        """Takes back the memory of tensors that are gone, but for what the program has still to read."""
        self.memory.collect()

    # -- running ------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Runs what was recorded. Afterwards memory has all values that tensors can see.

        Raises torch.OutOfMemoryError, after which it is still to be run, and what compiling or running raises, after
        which tensors that waited for it hold anything.
        """
        with self.lock:
            if self._step is self._root:
                return
            self.collect()
            found = [(b.value, b) for b in self._pending.values() if b.value is not None and b.lent]
            found.sort(key=lambda item: item[0])
            try:
                if found:
                    self._run(found)
            except torch.OutOfMemoryError:
                raise  # before anything ran: it does when memory is free
            except BaseException:
                self._reset(found)
                raise
            self._reset(found)

    def _run(self, found: list[tuple[tuple[int, int], Block]]) -> None:
        number, memory = self.memory.reading, self.memory
        wanted = tuple((value, b.place if b.reader == number else -1) for value, b in found)
        launch = self._step.launches.get(wanted)
        if launch is None:
            launch = self._step.launches[wanted] = Launch(self._step.recording(wanted), memory)
            self.programs += 1
        inputs, offsets = self._inputs.addresses(), self._inputs.offsets
        for vector, address, numbers in zip(self._vectors, self._addresses, self._numbers, strict=True):
            assert isinstance(numbers, list)
            if numbers:
                vector[: len(numbers)] = numbers
                inputs.append(address)
        written = [b for _, b in found]
        new = [b for b, (_, place) in zip(written, wanted, strict=True) if place < 0 and b.reader != number]
        for block in new:  # a tensor that dies while memory is made free leaves its block until the program has run
            block.reader, block.place = number, -1
        try:
            for block in written:
                memory.count(block)
            if self._watched is None or self._watched.ran(launch, self._inputs.blocks, offsets, written, self._numbers):
                launch.run(inputs, [b.address for b in written], tuple(offsets))
        except torch.OutOfMemoryError:
            for block in new:
                block.reader = -1
                if not block.lent:
                    memory.release(block)
            raise
        memory.publish()

    def _reset(self, found: list[tuple[tuple[int, int], Block]]) -> None:
        self.memory.reading += 1
        for _, block in found:
            block.value = None
        for block in (*self._inputs.blocks, *(block for _, block in found)):
            if not block.lent and self.memory.blocks.get(block.address) is block:
                self.memory.release(block)
        self._inputs.clear()
        self._pending.clear()
        self._numbers[0].clear()
        self._numbers[1].clear()
        if self._steps > MOST_STEPS:
            self._root, self._steps = Step(-1), 0
        self._step = self._root

    def settle(self, t: torch.Tensor, write: bool) -> Block:
        """Runs what was recorded if memory under a tensor is not what the program so far says, or, before a write,
        if the program has still to read it. Returns its block."""
        with self.lock:
            self.host_uses += 1
            block = self.memory.of(t)
            if self._watched is not None:
                self._watched.touched(block, write)
            if block.value is not None or write and block.reader == self.memory.reading:
                self.flush()
            if write:
                self.memory.count(block)
            return block

    @property
    def noting(self) -> Watched | None:
        """Where what is done is noted."""
        return self._watched

    @property
    def watching(self) -> bool:
        """Whether what is recorded is noted for later runs."""
        return self._watched is not None

    def watch(self, watched: Watched | None) -> None:
        """Notes in it what is done from now on, until None. Raises RuntimeError where that is done already."""
        if watched is not None and self._watched is not None:
            raise RuntimeError("a capture is under way: there is one at a time")
        self._watched = watched

    @contextmanager
    def together(self) -> Iterator[None]:
        """Has the ops within wait in eager mode too, until another op follows or the host reads what they write."""
        with self.lock:
            self._together += 1
        try:
            yield
        finally:
            with self.lock:
                self._together -= 1

    @contextmanager
    def watched(self) -> Iterator[Watched]:
        """As `recorded`, of which it says what was done."""
        self._watched, before = Watched(), self._watched
        try:
            with self.recorded():
                yield self._watched
        finally:
            self._watched = before

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Makes one program of the ops within, in eager mode too."""
        with self.together():
            try:
                yield
            finally:
                self.flush()
