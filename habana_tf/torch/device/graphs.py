"""HPU graphs: keep the programs that a piece of Python code became in lazy mode, and run them again on the same memory.

Between `capture_begin` and `capture_end` ops are recorded and run as always, and each program that runs is noted, with
the addresses that it reads and writes. `replay` runs these programs again, without recording an op:

    x = torch.zeros(4).to("hpu")             x's memory is an input of the graph
    with hpu.graph(g): y = model(x)          noted: program(x, weights) -> y
    x.copy_(batch); g.replay()               y's memory has model(batch)

All memory that the programs use stays the graph's until the graph is reset or gone. A replay cannot repeat what the
host does during a capture, so that is refused: reading a tensor, writing one that was there before, random ops on the
CPU.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from habana_tf.torch.device.streams import Stream, current_stream, set_stream
from habana_tf.torch.memory.storage import Block, Memory
from habana_tf.torch.record import current
from habana_tf.torch.record.each_op import EachOp
from habana_tf.torch.record.loaded_program import LoadedProgram, Watched, aligned
from habana_tf.torch.record.overload import Drawn
from habana_tf.torch.record.recorder import Recorder

__all__ = ["HPUGraph", "graph", "is_current_stream_capturing"]


@dataclass
class _Program:
    """One launch of the graph: the program, its addresses, and its run-time numbers. written: the blocks of its
    outputs. parts: the inputs that are parts of a block. vectors: hold the floats and the integers. drawn: (position,
    number) of integers that are drawn anew at each replay."""

    launch: LoadedProgram
    inputs: list[int]
    outputs: list[int]
    written: list[Block]
    parts: tuple[int, ...]
    vectors: list[Any]
    drawn: list[tuple[int, Drawn]]

    def run(self) -> None:
        for position, number in self.drawn:
            self.vectors[1][position] = number.again()
        for block in self.written:
            block.changes += 1
        self.launch.run(self.inputs, self.outputs, self.parts)


@dataclass
class _Constant:
    """Contents that the host wrote during the capture into memory that a program overwrites later: each replay writes
    them again."""

    block: Block
    saved: torch.Tensor

    def run(self) -> None:
        self.block.host().copy_(self.saved)


class _Captured(Watched):
    """What happens during a capture. steps: launches and constants, in order. held: the blocks that stay the graph's,
    by identity; read: those of them that programs read and that were there before. constants: blocks that the host has
    written and no program yet."""

    def __init__(self, memory: Memory, execute: bool) -> None:
        super().__init__()
        self.memory, self.execute = memory, execute
        self.before = {id(block) for block in memory.blocks.values() if block.lent}
        self.steps: list[_Program | _Constant] = []
        self.held: dict[int, Block] = {}
        self.read: dict[int, Block] = {}
        self.constants: dict[int, Block] = {}

    def ran(
        self, launch: LoadedProgram, read: list[Block], offsets: dict[int, int], written: list[Block],
        numbers: tuple[list[float], list[int]],
    ) -> bool:  # fmt: skip
        """Notes a program that is about to run. Returns whether it is to run."""
        for block in written:
            if self.constants.pop(id(block), None) is not None:
                self.steps.append(_Constant(block, block.host().clone()))
        vectors = []
        for values, dtype in zip(numbers, (np.float32, np.int64), strict=True):
            assert isinstance(values, list)
            vectors.append(aligned(len(values), dtype))
            vectors[-1][:] = values
        inputs = [b.address + offsets.get(k, 0) for k, b in enumerate(read)] + [
            v.ctypes.data for v in vectors if len(v)
        ]
        drawn, self.drawn = self.drawn, []
        outputs = [b.address for b in written]
        self.steps.append(_Program(launch, inputs, outputs, written, tuple(offsets), vectors, drawn))
        self.read.update((id(block), block) for block in read if id(block) in self.before)
        for block in (*read, *written):
            if id(block) not in self.held:
                self.held[id(block)] = block
                self.memory.hold(block)
        return self.execute

    def touched(self, block: Block, write: bool) -> None:
        """Refuses that the host reads a tensor or writes an old one. It may fill new memory."""
        if not write or id(block) in self.before:
            raise RuntimeError(
                f"the host {'writes' if write else 'reads'} a tensor while an HPU graph is captured, which a replay "
                "would not do again: do it before or after the capture (an op that runs on the CPU reads its arguments)"
            )
        self.constants[id(block)] = block

    def random(self, overload: Any) -> None:
        """Refuses a random op that runs on the CPU."""
        raise RuntimeError(
            f"{overload} draws its numbers on the host, and an HPU graph would give the same ones at each replay"
        )


class HPUGraph:
    """The programs of a piece of code, captured in lazy mode, to be run again."""

    def __init__(self) -> None:
        self._captured: _Captured | None = None
        self._steps: list[_Program | _Constant] | None = None
        self._read: list[Block] = []
        self._finalizer: Any = None

    def capture_begin(self, dry_run: bool = False) -> None:
        """Begins a capture. dry_run: programs are noted and not run. Raises RuntimeError in eager mode and during a
        capture."""
        recorder = current.recorder()
        if not recorder.lazy:
            raise RuntimeError("HPU graphs are for lazy mode: set PT_HPU_LAZY_MODE=1, or use torch.compile")
        self.reset()
        with recorder.lock:
            recorder.flush()
            recorder.memory.collect()
            captured = _Captured(recorder.memory, not dry_run)
            recorder.watch(captured)
            self._captured = captured

    def capture_end(self) -> None:
        """Ends the capture. Raises RuntimeError without one."""
        recorder = current.recorder()
        captured = self._captured
        if captured is None:
            raise RuntimeError("capture_end() without capture_begin()")
        try:
            recorder.flush()
            recorder.memory.collect()
            self._steps, self._read = captured.steps, [block for block in captured.read.values() if block.lent]
        finally:
            self._leave(recorder, captured)

    def _leave(self, recorder: Recorder, captured: _Captured) -> None:
        recorder.watch(None)
        self._captured = None
        held = list(captured.held.values())
        self._finalizer = weakref.finalize(self, captured.memory.unhold, held)
        self._finalizer.atexit = False

    def replay(self, asynchronous: bool = False) -> None:
        """Runs the programs again, on the same memory. Raises RuntimeError if nothing was captured."""
        recorder = current.recorder()
        if self._steps is None:
            raise RuntimeError("replay() without a capture: call capture_begin() and capture_end() first")
        with recorder.lock:
            recorder.flush()
            for step in self._steps:
                step.run()
            EachOp.replayed += sum(isinstance(step, _Program) for step in self._steps)
            recorder.memory.publish()

    @property
    def reads_what_is_gone(self) -> bool:
        """Whether a tensor that was there before the capture, and that the programs read, is no more."""
        recorder = current.recorder()
        with recorder.lock:
            recorder.memory.collect()
            return any(not block.lent for block in self._read)

    def reset(self) -> None:
        """Forgets the programs, and gives their memory back."""
        self._steps, self._read = None, []
        if self._finalizer is not None:
            self._finalizer()
            self._finalizer = None

    def abandon(self) -> None:
        """Ends a capture that has failed; nothing is kept of it."""
        recorder = current.recorder()
        if self._captured is not None:
            self._leave(recorder, self._captured)
            self.reset()


class graph:
    """Captures the code within it: `with hpu.graph(g): y = model(x)`. stream: the current one within."""

    def __init__(self, hpu_graph: HPUGraph, stream: Stream | None = None, dry_run: bool = False) -> None:
        self.hpu_graph, self.stream, self.dry_run = hpu_graph, stream, dry_run

    def __enter__(self) -> None:
        self.before = current_stream()
        self.hpu_graph.capture_begin(self.dry_run)
        set_stream(self.stream)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        set_stream(self.before)
        if kind is None:
            self.hpu_graph.capture_end()
        else:
            self.hpu_graph.abandon()


def is_current_stream_capturing() -> bool:
    """Whether a capture is under way."""
    return current.recorder().watched is not None
