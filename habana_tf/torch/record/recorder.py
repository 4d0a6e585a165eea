"""Records PyTorch's ops and runs them as programs. In lazy mode ops wait until a step ends or the host reads a result;
all that waited is then one program.

A training step records the same ops each time, so all recordings are kept as one tree. A node stands for the ops that
were recorded so far. An edge is one op, keyed by all that decides its meaning: the overload, which values it reads,
the shapes of those that are read for the first time, and the numbers that are compiled into the program.

    root --(mm, input 0 [8,4], input 1 [4,2])--> . --(relu_, value 0)--> .   programs of this node: {outputs: program}

An op that was recorded in this place before costs its key, one lookup, and the tensors for its results. To run what was
recorded, `flush` looks for a program at the node that it has come to, by the results that tensors still need.

What is slow is done once per node: PyTorch's meta kernels give shapes and refuse wrong arguments, and the op is lowered
on trial, so that one without a lowering goes to the CPU when it is called and not when the program is compiled.

In eager mode each op is a program by itself, with two exceptions. Ops on lists of tensors, of which optimizers' steps
are made, wait for each other: one program for all reads and writes memory once. And a forward graph of torch.compile
waits, with the ops that follow it, for its backward graph (see `compiled_steps`): in one program, what the forward pass
saves for the backward pass need not go through memory.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from habana_tf.settings import PT_HPU_MAX_COMPOUND_OP_SIZE
from habana_tf.torch import private_api
from habana_tf.torch.memory.element_types import DLPACK
from habana_tf.torch.memory.storage import Block, Memory, Shape
from habana_tf.torch.memory.strides import order_of_strides
from habana_tf.torch.record.call_keys import Entries
from habana_tf.torch.record.compiled_steps import CompiledGraphs, GraphKind
from habana_tf.torch.record.first_call import node_of
from habana_tf.torch.record.host_operands import HostOperand, on_card
from habana_tf.torch.record.loaded_program import LoadedProgram, Watched, aligned
from habana_tf.torch.record.overload import MOST_RUN_TIME_NUMBERS, Drawn, NotRecorded, Overload, Unsettled, tensor_at
from habana_tf.torch.record.stretches import BoundStretch, StretchNotes
from habana_tf.torch.record.tree import TreeNode

MOST_OPS = 20_000
"""Ops after which a program ends in any case."""
MOST_NODES = 200_000
"""Nodes after which the tree is dropped and a new one begun."""
_MOST_OF_AN_OP = 64
"""Run-time numbers that one op reads at most."""
_FULL = MOST_RUN_TIME_NUMBERS - _MOST_OF_AN_OP


class Recorder(Entries):
    """Records the ops of one card. lazy: whether ops wait for `flush`. unrun: in a dry run, what notes copies and ops
    on the CPU in the place of running them (see `torch.dry_run.recorder`). node: the tree node that stands for what was
    recorded so far; root: that of an empty recording."""

    def __init__(self, memory: Memory, lazy: bool) -> None:
        super().__init__(memory)
        self.lazy = lazy
        self.unrun: Any = None
        self.lock = threading.RLock()
        self.programs = 0
        self.host_uses = 0
        self.root = self.node = TreeNode(-1)
        self._nodes = 0
        self._together = 0
        self._graphs = CompiledGraphs()
        self._most_ops = min(MOST_OPS, PT_HPU_MAX_COMPOUND_OP_SIZE.get()) if lazy else MOST_OPS
        self._pending: dict[int, Block] = {}
        self._vectors = [aligned(MOST_RUN_TIME_NUMBERS, dtype) for dtype in (np.float32, np.int64)]
        self._addresses = [vector.ctypes.data for vector in self._vectors]

    # -- recording ----------------------------------------------------------------------------------------

    def record(self, kernel: Overload, args: Sequence[Any], kwargs: dict[str, Any], settled: bool = False) -> Any:
        """Records a call of an overload. Returns its results, whose values are there after `flush`. Raises NotRecorded
        for a call that no program can have, and what PyTorch raises for wrong arguments. settled: this is the second
        try of a call, after a flush, so that all memory holds what it should."""
        with self.lock:
            self.begin()
            before, marks = self.node, (len(self.inputs.blocks), len(self._numbers[0]), len(self._numbers[1]))
            try:
                entry = self._entry(kernel, args, kwargs)
                node = self.node.then.get(entry)
                if node is None:
                    node = self._new(kernel, entry, args, kwargs)
                if node.refused:
                    raise NotRecorded(node.refused)
                new = [None if fresh is None else self.memory.tensor(*fresh) for fresh in node.fresh]
                self.node = node
            except HostOperand:
                self.node = before
                self._undo(*marks)
                return self.record(kernel, *on_card(str(kernel.overload), args, kwargs), settled)
            except Unsettled:
                self.node = before
                self._undo(*marks)
                if settled:
                    raise NotRecorded("two of its arguments view the same memory as different types") from None
                self.flush()
                self.host_uses += 1  # what was recorded ends here, as before a look at memory
                return self.record(kernel, args, kwargs, True)
            except BaseException:
                self.node = before
                self._undo(*marks)
                raise
            made = self._results(node, new, args, kwargs)
            self.end(1)
            return made

    def begin(self) -> None:
        """Called before an op is recorded: flushes, if the op is not to become part of what was recorded so far."""
        if self.node is not self.root and not self._waits:
            self.flush()

    def end(self, ops: int) -> None:
        """Called after so many ops were recorded: flushes, if they are not to wait."""
        if not self._waits or self._full:
            self.flush()
        self._graphs.ops += ops

    @property
    def _waits(self) -> bool:
        """Whether ops wait for `flush`, and so become part of what was recorded before."""
        graphs = self._graphs
        return self.lazy or (graphs.wait if graphs.some else self._together > 0)

    @property
    def _full(self) -> bool:
        floats, integers = self._numbers
        return self.node.index + 1 >= self._most_ops or len(floats) > _FULL or len(integers) > _FULL

    def _new(self, kernel: Overload, entry: tuple[Any, ...], args: Sequence[Any], kwargs: dict[str, Any]) -> TreeNode:
        self._nodes += 1
        node = node_of(self.node, kernel, entry, args, kwargs, self.memory)
        self.node.then[entry] = node
        return node

    def _results(
        self,
        node: TreeNode,
        new: Sequence[tuple[torch.Tensor, Block] | None],
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        """The results of a call: new tensors, and arguments that it returns. Notes in the block of each tensor that the
        call writes which value of the program it is to hold."""
        memory, index = self.memory, node.index
        made: list[Any] = []
        for k, each in enumerate(new):
            if each is None:
                made.append(None)
                continue
            t, block = each
            block.value = index, k
            self._pending[block.address] = block
            made.append(t)
        if node.plain:
            return made[0]
        for k, where in enumerate(node.written):
            block = memory.of(tensor_at(where, args, kwargs))
            block.value = (index, len(node.fresh) + k)
            block.changes += 1
            self._pending[block.address] = block
        for where in node.returned:
            made.append(tensor_at(where, args, kwargs))
        return made[0] if node.single else tuple(made)

    # -- graphs -------------------------------------------------------------------------------------------

    def stretch(self, call: Callable[[], Any], args: Sequence[Any]) -> tuple[Any, BoundStretch | None]:
        """Calls a function and records its ops one by one. Returns its results, and what was recorded as a stretch with
        `args` as parameters, for `repeat`; None where another call might not record the same."""
        watched, before = Watched(), self.watched
        stretch = StretchNotes(self.memory, self.inputs, self._numbers, args)
        self.watched, self._graphs.within = watched, True
        try:
            with self.together():
                results = call()
        finally:
            self.watched, self._graphs.within = before, False
        given = results if isinstance(results, (tuple, list)) else [results]
        return results, stretch.bind(self.node, self._numbers, watched, given)

    def repeat(
        self, bound: BoundStretch, args: Sequence[Any], blocks: list[Block],
        numbers: tuple[Sequence[float], Sequence[int]] | None = None,
    ) -> list[Any]:  # fmt: skip
        """Records all ops of a stretch at once, for other arguments; returns its results. blocks: of the arguments.
        numbers: to read at run time, in the place of those that the first call read."""
        memory, inputs, pending = self.memory, self.inputs, self._pending
        made = []
        for storage, value in bound.storages:
            t, block = memory.tensor(*storage)
            made.append(t)
            blocks.append(block)
            block.value = value
            if value is not None:
                pending[block.address] = block
        blocks += [memory.unseen(size) for size in bound.scratch]
        for at in bound.inputs:
            if at >= 0:
                inputs.whole(blocks[at])
            else:
                part = bound.parts[-1 - at]
                inputs.add_part(blocks[part.at], bound.address(part, args, blocks), part.shape)
        for at, value in bound.written:
            blocks[at].value = value
            blocks[at].changes += 1
            pending[blocks[at].address] = blocks[at]
        floats, integers = numbers or (bound.floats, bound.integers)
        self._numbers[0].extend(floats)
        self._numbers[1].extend(integers)
        for kind, position, argument in bound.hosts:
            self._numbers[kind][position] = args[argument].item()
        for position, number in bound.drawn:
            self._numbers[1][position] = Drawn.of(number.again(), number.again)
        self.node = bound.node
        return [result(args, made) for result in bound.results]

    def run_alone(self, bound: BoundStretch, args: Sequence[Any], blocks: list[Block]) -> list[Any]:
        """What `repeat` and `flush` do, for a stretch that is a whole program. Faster, because nothing is noted for ops
        that might follow."""
        self.programs += bound.launch is None and bool(bound.outputs)
        return bound.run(args, blocks, self._vectors)

    def graph_begins(self, kind: GraphKind, graph: Any) -> None:
        """Called before a compiled graph is recorded: flushes, if in eager mode the graph is not to become part of what
        was recorded so far."""
        if not self.lazy and not self._graphs.goes_on(kind, graph):
            self.flush()

    def graph_ends(self, kind: GraphKind, graph: Any) -> None:
        """Called after a compiled graph was recorded: flushes, or has the end of the backward pass do so."""
        self._graphs.add(kind, graph)
        if kind is GraphKind.BACKWARD and not self.lazy and not self._graphs.passing:
            self._graphs.passing = private_api.behind_backward_pass(self.flush)
        if self._full or not self.lazy and not self._graphs.wait and kind is GraphKind.ALONE:
            self.flush()

    @property
    def waiting(self) -> bool:
        """Whether something was recorded that has not run yet."""
        return self.node is not self.root

    def tensor(self, shape: Shape, strides: Shape, dtype: torch.dtype) -> tuple[torch.Tensor, Block]:
        """A new tensor, with any contents, and its block."""
        order = order_of_strides(shape, strides)
        if order is None:
            count = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
            held: Shape = (count,)
        else:
            count, held = math.prod(shape), tuple(map(shape.__getitem__, order))
        self.memory.collect()
        return self.memory.tensor(shape, strides, dtype, count * DLPACK[dtype][1] // 8, held)

    # -- running ------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Runs what was recorded. Afterwards the memory of every tensor holds the tensor's value.

        Raises torch.OutOfMemoryError; the recording is kept then and runs at the next flush. Raises what compiling or
        running raises; the recording is dropped then, and its results have any contents.
        """
        with self.lock:
            if self.node is self.root:
                return
            self.memory.collect()
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
        wanted = tuple((value, b.input if b.reader == number else -1) for value, b in found)
        launch = self.node.launches.get(wanted)
        if launch is None:
            launch = self.node.launches[wanted] = LoadedProgram(self.node.recording(wanted), memory, self.inputs.blocks)
            self.programs += 1
        inputs, offsets = self.inputs.addresses(), self.inputs.offsets
        for vector, address, numbers in zip(self._vectors, self._addresses, self._numbers, strict=True):
            assert isinstance(numbers, list)
            if numbers:
                vector[: len(numbers)] = numbers
                inputs.append(address)
        written = [b for _, b in found]
        new = [b for b, (_, replaced) in zip(written, wanted, strict=True) if replaced < 0 and b.reader != number]
        for block in new:  # a tensor that dies while memory is made free leaves its block until the program has run
            block.reader, block.input = number, -1
        try:
            for block in written:
                memory.count(block)
            if self.watched is None or self.watched.ran(launch, self.inputs.blocks, offsets, written, self._numbers):
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
        for block in (*self.inputs.blocks, *(block for _, block in found)):
            if not block.lent and self.memory.blocks.get(block.address) is block:
                self.memory.release(block)
        self.inputs.clear()
        self._pending.clear()
        self._numbers[0].clear()
        self._numbers[1].clear()
        if self._nodes > MOST_NODES:
            self.root, self._nodes = TreeNode(-1), 0
        self.node, self._graphs = self.root, CompiledGraphs()

    def settle(self, t: torch.Tensor, write: bool) -> Block:
        """Makes the memory of a tensor ready for the host: flushes if the recording has still to write it or, before a
        write by the host, still to read it. Returns the tensor's block."""
        with self.lock:
            self.host_uses += 1
            block = self.memory.of(t)
            if self.watched is not None:
                self.watched.touched(block, write)
            if block.value is not None or write and block.reader == self.memory.reading:
                self.flush()
            if write:
                self.memory.count(block)
                block.changes += 1
            return block

    def watch(self, watched: Watched | None) -> None:
        """Begins a capture, which notes what is recorded and run; None ends it. Raises RuntimeError where one is under
        way."""
        if watched is not None and self.watched is not None:
            raise RuntimeError("a capture is under way: there is one at a time")
        self.watched = watched

    @contextmanager
    def together(self) -> Iterator[None]:
        """In eager mode, too, has the ops within wait for each other, until another op follows or the host reads what
        they write."""
        with self.lock:
            self._together += 1
        try:
            yield
        finally:
            with self.lock:
                self._together -= 1

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Makes one program of the ops within, in eager mode too."""
        with self.together():
            try:
                yield
            finally:
                self.flush()
