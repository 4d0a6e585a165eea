"""Program to recipe: rewrite, schedule, generate, compile, and lay out the buffers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from habana_tf.hardware.cpu import Target

from ..ir import extent as ext
from ..ir.extent import Extent
from ..ir.interpreter import evaluate
from ..ir.primitives import Node, Op, Program
from . import in_place
from .body import Body
from .code import Code
from .codegen.generate import generate
from .codegen.objects import MODULE_BYTES, Objects
from .describe import describe
from .recipe import Buffer, KernelCall, Kind, LoopCalls, Recipe
from .rewrite import rewrite
from .schedule import Repeated, Schedule, schedule


def compile_program(program: Program, name: str, target: Target) -> Recipe:
    """The recipe of a program. Raises views.Unfit for one that code generation cannot take."""
    outputs = [(n.dtype, n.shape) for n in program.outputs]
    program = rewrite(program)
    plan = schedule(program)
    with Objects(target) as objects:
        generated = generate(plan, target, objects.add, MODULE_BYTES)
        code = objects.finish()
    emitted = _Emitted(_Layout(program), generated.codes, list(plan.flat()))
    emitted.spared = in_place.joined(_outputs(program, plan), emitted.kernels, generated.codes)
    emitted.layout.join(emitted.spared)
    emitted.add(plan)
    return Recipe(
        name,
        emitted.made,
        emitted.layout.buffers(),
        outputs,
        list(program.states),
        bytes(emitted.layout.constants),
        code,
        emitted.rows,
        emitted.only_copies(),
        conditions=program.conditions,
        loops=emitted.loops,
    )


def _outputs(program: Program, plan: Schedule) -> set[Node]:
    """Of a program and of the loops in it."""
    found = set(program.outputs)
    for kernel in plan.kernels:
        if isinstance(kernel, Repeated):
            found |= _outputs(kernel.program, kernel.plan)
    return found


@dataclass
class _Emitted:
    """The calls of a schedule, in order. codes, kernels: of all kernels, those in loops among them.

    copies: (call, input that it copies, output); see `Recipe`.
    """

    layout: _Layout
    codes: Sequence[Code]
    kernels: Sequence[Body]
    spared: Mapping[Node, Node] = field(default_factory=dict)
    made: list[KernelCall] = field(default_factory=list)
    loops: list[LoopCalls] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    copies: list[tuple[int, Node, int]] = field(default_factory=list)
    _done: int = 0

    def add(self, plan: Schedule, times: int = 1) -> None:
        """The calls of the kernels of a schedule, which is made so many times."""
        for kernel in plan.kernels:
            if isinstance(kernel, Repeated):
                self._repeat(kernel, times * kernel.loop.trips)
            else:
                self._kernel(self.codes[self._done], kernel, times)
                self._done += 1

    def only_copies(self) -> list[tuple[int, int, int]]:
        return [(at, int(source.arg), output) for at, source, output in self.copies if self.layout.uses(source) == 1]

    def _kernel(self, code: Code, kernel: Body, times: int) -> None:
        first = len(self.made)
        temps = [self.layout.temporary(n) for n in code.temps]
        copied = in_place.copied(kernel)
        calls = () if copied is not None and copied[0] in self.spared else code.calls
        for call in calls:
            if call.grid == 0:
                continue
            numbers = tuple(temps[b[1]] if isinstance(b, tuple) else self.layout.number(b) for b in call.buffers)
            self.layout.used(numbers, len(self.made))
            if copied is not None and len(calls) == 1 and (output := self.layout.taken_over(*copied)) is not None:
                self.copies.append((len(self.made), copied[0], output))
            self.made.append(KernelCall(call.name, numbers, call.grid, call.grain, call.constants))
        self.layout.used(temps, len(self.made) - 1)
        self.rows.append({**describe(kernel, times), "launches": [first, len(self.made) - first]})

    def _repeat(self, kernel: Repeated, times: int) -> None:
        """The calls of a loop. What it works on lives as long as the loop, from its first call to its last."""
        loop, body, layout = kernel.loop, kernel.program, self.layout
        first, at = len(self.made), len(self.loops)
        self.loops.append(LoopCalls(first, 0, loop.trips))
        windows, carried, held = [], [], []
        outer = [layout.number(n) for n in kernel.sources]
        for k, (inner, source) in enumerate(zip(body.inputs, outer, strict=True)):
            if k < loop.carried:
                now, then = layout.temporary(_bytes(inner)), layout.temporary(_bytes(inner))
                layout.give(inner, now)
                layout.give(body.outputs[k], then)
                final = layout.number(kernel.results[k]) if k in kernel.results else -1
                carried.append((now, then, source, final))
                held += [now, then, *([final] if final >= 0 else [])]
            elif k < loop.carried + len(loop.sliced):
                start, step = loop.sliced[k - loop.carried]
                windows.append(self._window(inner, source, start, step))
            else:
                layout.give(inner, source)
        for k, (inner, (start, step)) in enumerate(zip(body.outputs[loop.carried :], loop.stacked, strict=True)):
            if (node := kernel.results.get(loop.carried + k)) is None:  # nobody reads it
                layout.give(inner, layout.temporary(_bytes(inner)))
            else:
                held.append(layout.number(node))
                windows.append(self._window(inner, held[-1], start, step))
        self.add(kernel.plan, times)
        self.loops[at] = LoopCalls(first, len(self.made) - first, loop.trips, tuple(windows), tuple(carried))
        for call in (first, max(first, len(self.made) - 1)):
            layout.used([*outer, *held], call)

    def _window(self, inner: Node, whole: int, start: int, step: int) -> tuple[int, Extent, Extent]:
        row = _bytes(inner)
        number = self.layout.window(inner, whole, row)
        return number, ext.mul(row, start), ext.mul(row, step)


def _bytes(node: Node) -> Extent:
    return ext.mul(node.numel, node.dtype.bytes)


class _Layout:
    """Gives every node in memory, and every temporary, its buffer."""

    def __init__(self, program: Program) -> None:
        self.constants = bytearray()
        self._outputs = {n: k for k, n in enumerate(program.outputs)}
        self._numbers: dict[Node, int] = {}
        self._made: list[tuple[Kind, int, Extent]] = []
        self._life: dict[int, tuple[int, int]] = {}
        self._used: Counter[int] = Counter()
        self._joined: dict[Node, Node] = {}

    def join(self, values: Mapping[Node, Node]) -> None:
        """Gives each value the buffer of the node that is made of it."""
        self._joined = dict(values)

    def taken_over(self, source: Node, target: Node) -> int | None:
        """The number of an output that begins as a copy of an input, whose memory it might take over."""
        given = source.op is Op.INPUT and not isinstance(source.arg, tuple)
        return self._outputs.get(self._home(target)) if given else None

    def uses(self, node: Node) -> int:
        """How many calls work on a node."""
        return self._used[self.number(node)]

    def number(self, node: Node) -> int:
        node = self._home(node)
        if node not in self._numbers:
            self._numbers[node] = self._add(*self._place(node))
        return self._numbers[node]

    def _home(self, node: Node) -> Node:
        """The node whose buffer a node has."""
        while node in self._joined:
            node = self._joined[node]
        return node

    def give(self, node: Node, number: int) -> None:
        """Says which buffer a node has."""
        self._numbers[node] = number

    def window(self, node: Node, whole: int, nbytes: Extent) -> int:
        """The buffer of a node that is a part of another buffer."""
        self._numbers[node] = self._add(Kind.WINDOW, whole, nbytes)
        return self._numbers[node]

    def temporary(self, nbytes: Extent) -> int:
        return self._add(Kind.WORKSPACE, 0, nbytes)

    def used(self, numbers: tuple[int, ...] | list[int], call: int) -> None:
        """Notes that a call works on these buffers."""
        self._used.update(set(numbers))
        for n in numbers:
            first, last = self._life.get(n, (call, call))
            self._life[n] = (min(first, call), max(last, call))

    def buffers(self) -> list[Buffer]:
        return [Buffer(kind, index, n, *self._life.get(k, (0, 0))) for k, (kind, index, n) in enumerate(self._made)]

    def _add(self, kind: Kind, index: int, nbytes: Extent) -> int:
        self._made.append((kind, index, nbytes))
        return len(self._made) - 1

    def _place(self, node: Node) -> tuple[Kind, int, Extent]:
        nbytes = ext.mul(node.numel, node.dtype.bytes)
        if node in self._outputs:
            return Kind.OUTPUT, self._outputs[node], nbytes
        if node.op is Op.INPUT:
            if isinstance(node.arg, tuple):
                return Kind.STATE, node.arg[1], nbytes
            return Kind.INPUT, node.arg, nbytes
        if node.op is Op.CONST:
            self.constants.extend(b"\0" * (-len(self.constants) % 64))
            start = len(self.constants)
            self.constants.extend(evaluate(node, []).tobytes())
            return Kind.CONSTANT, start, nbytes
        return Kind.WORKSPACE, 0, nbytes
