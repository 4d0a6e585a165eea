"""Lazy mode: ops of PyTorch are recorded, and become one program when a step ends or the host reads a result.

A training step records the same ops again and again, so recordings are a tree: a node is what was recorded so far, and
an edge is one op with all that its meaning depends on: the overload, which values it reads, their shapes the first time
they appear, numbers that are no run-time inputs. To record an op that was met before is to make a tuple, look it up
and make the tensors that the node says; to end a node is to look the results that are still wanted up at its last node.

    root --(mm, input 0 [8,4], input 1 [4,2])--> . --(relu_, value 0)--> .   ends here: {outputs: program}

Everything slow happens once per node: PyTorch's meta kernels say shapes and refuse wrong arguments, and the lowering is
rehearsed, so that an op without one goes to the CPU when it is called and not when the program is compiled.

In eager mode each op is a program by itself, but for ops on lists of tensors, of which a step of an optimizer is made:
these wait for each other, since all of them together pass through memory once. The graphs of torch.compile (see
`stretches`) are stretches of recordings. While the gradients of some are to come, what follows waits with them: so the
forward and the backward pass are one program, and what the one saves for the other need not pass through memory.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

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
"""Ops that a program may have; a recording ends after so many."""
MOST_NODES = 200_000
"""Nodes of the tree before it is begun anew."""
_MOST_OF_AN_OP = 64
"""Numbers that one op may read."""
_FULL = MOST_RUN_TIME_NUMBERS - _MOST_OF_AN_OP


class Recorder(Entries):
    """The recording of one card. lazy: whether ops wait for `flush`. unrun: what notes copies and ops on the CPU where
    nothing is run (see `torch.dry_run.recorder`)."""

    def __init__(self, memory: Memory, lazy: bool) -> None:
        super().__init__(memory)
        self.lazy = lazy
        self.unrun: Any = None
        self.lock = threading.RLock()
        self.programs = 0
        self.host_uses = 0
        self._root = self._node = TreeNode(-1)
        self._nodes = 0
        self._together = 0
        self._graphs = CompiledGraphs()
        self._pending: dict[int, Block] = {}
        self._vectors = [aligned(MOST_RUN_TIME_NUMBERS, dtype) for dtype in (np.float32, np.int64)]
        self._addresses = [vector.ctypes.data for vector in self._vectors]

    # -- recording ----------------------------------------------------------------------------------------

    def record(self, kernel: Overload, args: Sequence[Any], kwargs: dict[str, Any], settled: bool = False) -> Any:
        """Records a call of an overload. Returns its results, whose values are there after `flush`. Raises NotRecorded
        for a call that no program can have, and what PyTorch raises for wrong arguments. settled: whether it is tried
        again, on memory that has what it is to hold."""
        with self.lock:
            self.begin()
            before, marks = self._node, (len(self.inputs.blocks), len(self._numbers[0]), len(self._numbers[1]))
            try:
                entry = self._entry(kernel, args, kwargs)
                node = self._node.then.get(entry)
                if node is None:
                    node = self._new(kernel, entry, args, kwargs)
                if node.refused:
                    raise NotRecorded(node.refused)
                new = [None if fresh is None else self.memory.tensor(*fresh) for fresh in node.fresh]
                self._node = node
            except HostOperand:
                self._node = before
                self._undo(*marks)
                return self.record(kernel, *on_card(str(kernel.overload), args, kwargs), settled)
            except Unsettled:
                self._node = before
                self._undo(*marks)
                if settled:
                    raise NotRecorded("two of its arguments view the same memory as different types") from None
                self.flush()
                self.host_uses += 1  # what was recorded ends here, as before a look at memory
                return self.record(kernel, args, kwargs, True)
            except BaseException:
                self._node = before
                self._undo(*marks)
                raise
            made = self._results(node, new, args, kwargs)
            self.end(1)
            return made

    def begin(self) -> None:
        """Ends the program that is recorded, if what follows is no part of it."""
        if self._node is not self._root and not self._waits:
            self.flush()

    def end(self, ops: int) -> None:
        """So many ops were recorded, which run now if they are not to wait."""
        if not self._waits or self._full:
            self.flush()
        self._graphs.ops += ops

    @property
    def _waits(self) -> bool:
        """Whether an op becomes part of the program that is recorded, and waits with it."""
        graphs = self._graphs
        return self.lazy or (graphs.wait if graphs.some else self._together > 0)

    @property
    def _full(self) -> bool:
        floats, integers = self._numbers
        return self._node.index >= MOST_OPS or len(floats) > _FULL or len(integers) > _FULL

    def _new(self, kernel: Overload, entry: tuple[Any, ...], args: Sequence[Any], kwargs: dict[str, Any]) -> TreeNode:
        self._nodes += 1
        node = node_of(self._node, kernel, entry, args, kwargs, self.memory)
        self._node.then[entry] = node
        return node

    def _results(
        self,
        node: TreeNode,
        new: Sequence[tuple[torch.Tensor, Block] | None],
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        """New tensors, and arguments that were written; their blocks get values of the program."""
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
            self._pending[block.address] = block
        for where in node.returned:
            made.append(tensor_at(where, args, kwargs))
        return made[0] if node.single else tuple(made)

    # -- graphs -------------------------------------------------------------------------------------------

    @property
    def node(self) -> TreeNode:
        """The node of the tree that the program has come to."""
        return self._node

    @property
    def root(self) -> TreeNode:
        """The node that every program begins with."""
        return self._root

    def stretch(self, call: Callable[[], Any], args: Sequence[Any]) -> tuple[Any, BoundStretch | None]:
        """Calls a function whose ops are one stretch of the program. Returns what it gives, and the stretch bound to
        `args`, None where it cannot be."""
        watched, before = Watched(), self._watched
        stretch = StretchNotes(self.memory, self.inputs, self._numbers, args)
        self._watched, self._graphs.within = watched, True
        try:
            with self.together():
                results = call()
        finally:
            self._watched, self._graphs.within = before, False
        given = results if isinstance(results, (tuple, list)) else [results]
        return results, stretch.bind(self._node, self._numbers, watched, given)

    def repeat(
        self, bound: BoundStretch, args: Sequence[Any], blocks: list[Block],
        numbers: tuple[Sequence[float], Sequence[int]] | None = None,
    ) -> list[Any]:  # fmt: skip
        """Records a stretch that was bound; returns its results. blocks: of the arguments; numbers: in the place of
        those that were bound."""
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
            pending[blocks[at].address] = blocks[at]
        floats, integers = numbers or (bound.floats, bound.integers)
        self._numbers[0].extend(floats)
        self._numbers[1].extend(integers)
        for kind, position, argument in bound.hosts:
            self._numbers[kind][position] = args[argument].item()
        for position, number in bound.drawn:
            self._numbers[1][position] = Drawn.of(number.again(), number.again)
        self._node = bound.node
        return [result(args, made) for result in bound.results]

    def run_alone(self, bound: BoundStretch, args: Sequence[Any], blocks: list[Block]) -> list[Any]:
        """As `repeat` and `flush` where nothing is recorded before, without the notes that others would need."""
        self.programs += bound.launch is None and bool(bound.outputs)
        return bound.run(args, blocks, self._vectors)

    def graph_begins(self, kind: GraphKind, graph: Any) -> None:
        """Ends the program in eager mode, if a graph that is to be recorded is no part of it."""
        if not self.lazy and not self._graphs.goes_on(kind, graph):
            self.flush()

    def graph_ends(self, kind: GraphKind, graph: Any) -> None:
        """A graph was recorded."""
        self._graphs.add(kind, graph)
        if kind is GraphKind.BACKWARD and not self.lazy and not self._graphs.passing:
            self._graphs.passing = private_api.behind_backward_pass(self.flush)
        if self._full or not self.lazy and not self._graphs.wait and kind is GraphKind.ALONE:
            self.flush()

    @property
    def waiting(self) -> bool:
        """Whether something is recorded that has not run."""
        return self._node is not self._root

    def tensor(self, shape: Shape, strides: Shape, dtype: torch.dtype) -> tuple[torch.Tensor, Block]:
        """A new tensor that nothing has written, and its block."""
        order = order_of_strides(shape, strides)
        if order is None:
            count = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
            held: Shape = (count,)
        else:
            count, held = math.prod(shape), tuple(map(shape.__getitem__, order))
        self.collect()
        return self.memory.tensor(shape, strides, dtype, count * DLPACK[dtype][1] // 8, held)

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
            if self._node is self._root:
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
        wanted = tuple((value, b.input if b.reader == number else -1) for value, b in found)
        launch = self._node.launches.get(wanted)
        if launch is None:
            launch = self._node.launches[wanted] = LoadedProgram(
                self._node.recording(wanted), memory, self.inputs.blocks
            )
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
            if self._watched is None or self._watched.ran(launch, self.inputs.blocks, offsets, written, self._numbers):
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
            self._root, self._nodes = TreeNode(-1), 0
        self._node, self._graphs = self._root, CompiledGraphs()

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
    def recorded(self) -> Iterator[None]:
        """Makes one program of the ops within, in eager mode too."""
        with self.together():
            try:
                yield
            finally:
                self.flush()
