"""The compiler's driver, from program to recipe: rewrite, schedule, generate code, compile it, assign buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from habana_tf.compiler import in_place
from habana_tf.compiler.body import Body
from habana_tf.compiler.code import Code, FunctionCall
from habana_tf.compiler.codegen.generate import generate
from habana_tf.compiler.codegen.objects import Objects
from habana_tf.compiler.costs import MODULE_IR_BYTES, WORKER_PRODUCTS, bf16_rounding
from habana_tf.compiler.describe import describe, describe_copy
from habana_tf.compiler.loop_blocks import in_blocks
from habana_tf.compiler.memory_plan import Lifetime, place
from habana_tf.compiler.recipe import Buffer, CheckedIndices, CustomCall, KernelCall, Kind, LoopCalls, Recipe
from habana_tf.compiler.rewrite import rewrite
from habana_tf.compiler.row_blocks import in_row_blocks
from habana_tf.compiler.schedule import Repeated, Schedule, schedule
from habana_tf.compiler.streamed_results import mark_streamed
from habana_tf.hardware.cpu import Target
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent
from habana_tf.ir.interpreter import evaluate
from habana_tf.ir.primitives import Custom, Node, Op, Program, Rows


def compile_program(program: Program, name: str, target: Target) -> Recipe:
    """Compiles a program to a recipe. Raises Unfit if code generation does not support it."""
    assert [n.arg for n in program.inputs] == [*range(len(program.inputs))], "a launch gives inputs by these numbers"
    outputs = [(n.dtype, n.shape) for n in program.results]
    program = prepared(program)
    plan = schedule(program, rounding=bf16_rounding(target.rounds_to_bf16))
    mark_streamed(plan, program, target)
    products = sum(kernel.is_contraction for kernel in plan.flat())
    with Objects(target, large=products >= WORKER_PRODUCTS) as objects:
        generated = generate(plan, target, objects.add, MODULE_IR_BYTES)
        emitted = _CallList(_Layout(program), generated.codes, list(plan.flat()))
        emitted.aliases = in_place.shared_scatters(_outputs(program, plan), emitted.kernels, generated.codes)
        emitted.layout.share(emitted.aliases)
        emitted.add(plan)
        checks = emitted.checks(program)
        copies = emitted.elidable_copies()
        code = objects.finish()
    elided = {(source, output) for _, source, output in copies}
    return Recipe(
        name,
        emitted.calls,
        emitted.layout.buffers(),
        outputs,
        list(program.states),
        bytes(emitted.layout.constants),
        code,
        emitted.rows,
        copies,
        in_place.updated(program, emitted.kernels, emitted.layout.life, elided),
        conditions=program.conditions,
        loops=emitted.loops,
        customs=emitted.customs,
        checks=checks,
    )


def prepared(program: Program) -> Program:
    """The program after all rewrites that precede scheduling."""
    return in_row_blocks(in_blocks(rewrite(program)))


def _outputs(program: Program, plan: Schedule) -> set[Node]:
    """The outputs of a program and of the loops in it."""
    found = set(program.outputs)
    for kernel in plan.kernels:
        if isinstance(kernel, Repeated):
            found |= _outputs(kernel.program, kernel.plan)
    return found


@dataclass
class _CallList:
    """Collects the kernel calls of a schedule. codes, kernels: of all kernels, also those in loops.

    copies: (call, input that it copies, output); see `Recipe`.
    """

    layout: _Layout
    codes: Sequence[Code]
    kernels: Sequence[Body]
    aliases: Mapping[Node, Node] = field(default_factory=dict)
    calls: list[KernelCall] = field(default_factory=list)
    loops: list[LoopCalls] = field(default_factory=list)
    customs: list[CustomCall] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    copies: list[tuple[int, Node, int]] = field(default_factory=list)
    _kernel_number: int = 0
    _hoisted: dict[int, dict[int, int]] = field(default_factory=dict)
    """By the number of a kernel: the buffers of temporaries that were hoisted out of its loop."""

    def add(self, plan: Schedule, times: Extent = 1) -> None:
        """Adds the calls of a schedule's kernels, which run `times` times per launch."""
        for kernel in plan.kernels:
            if isinstance(kernel, Repeated):
                self._loop(kernel, times)
            else:
                self._kernel(self.codes[self._kernel_number], kernel, times)
                self._kernel_number += 1

    def elidable_copies(self) -> list[tuple[int, int, int]]:
        last = {source: self.layout.life(source)[1] for _, source, _ in self.copies}
        return [(at, int(source.arg), output) for at, source, output in self.copies if last[source] == at]

    def checks(self, program: Program) -> list[CheckedIndices]:
        """The buffers of the indices that the runtime checks after the last call."""
        found = zip(program.checked, program.checks, strict=True)
        checks = [CheckedIndices(self.layout.number(node), node.dtype, check) for node, check in found]
        self.layout.used([c.buffer for c in checks], max(0, len(self.calls) - 1))
        return checks

    def _kernel(self, code: Code, kernel: Body, times: Extent) -> None:
        first = len(self.calls)
        early = self._hoisted.pop(self._kernel_number, {})
        temps = [early[k] if k in early else self.layout.temporary(n) for k, n in enumerate(code.temps)]
        copied = in_place.copied_base(kernel)
        calls = () if copied is not None and copied[0] in self.aliases else code.calls
        for call in calls:
            if call.grid == 0 or (early and call.once):
                continue
            sizes = [code.temps[b[1]] if isinstance(b, tuple) else b.nbytes for b in call.buffers]
            if call.custom is None and all(n == 0 for n in sizes):
                continue  # rows without elements
            numbers = self._numbers(call, temps)
            if copied is not None and len(calls) == 1 and (output := self.layout.reusable_output(*copied)) is not None:
                self.copies.append((len(self.calls), copied[0], output))
            if call.custom is not None:
                numbers = (*self._custom(kernel, call.custom), *numbers)
            self.calls.append(KernelCall(call.name, numbers, call.grid, call.grain, call.constants))
        self.layout.used(temps, len(self.calls) - 1)
        self.rows.append({**describe(kernel, times), "launches": [first, len(self.calls) - first]})

    def _custom(self, kernel: Body, spec: Custom) -> tuple[int, int]:
        """The buffers of a custom kernel's arguments and of its errors."""
        assert kernel.core is not None
        inputs = tuple((n.dtype, tuple(ext.evaluate(e, []) for e in n.shape)) for n in kernel.core.src)
        self.customs.append(CustomCall(spec, inputs))
        return self.layout.custom(len(self.customs) - 1)

    def _numbers(self, call: FunctionCall, temps: Sequence[int] | Mapping[int, int]) -> tuple[int, ...]:
        """The buffers of the next call."""
        numbers = tuple(temps[b[1]] if isinstance(b, tuple) else self.layout.number(b) for b in call.buffers)
        self.layout.used(numbers, len(self.calls))
        return numbers

    def _hoist(self, plan: Schedule, times: Extent) -> list[int]:
        """Hoists loop-invariant calls of a loop's kernels; gives the buffers of their results."""
        made: list[int] = []
        at = self._kernel_number
        for kernel in plan.kernels:
            if isinstance(kernel, Repeated):
                at += len(list(kernel.plan.flat()))
                continue
            code, source = self.codes[at], None
            for call in code.calls:
                if not call.once or call.grid == 0:
                    continue
                early = self._hoisted.setdefault(at, {})
                for b in call.buffers:
                    if isinstance(b, tuple) and b[1] not in early:
                        early[b[1]] = self.layout.temporary(code.temps[b[1]])
                        made.append(early[b[1]])
                numbers = self._numbers(call, early)
                self.calls.append(KernelCall(call.name, numbers, call.grid, call.grain, call.constants))
                source = next((b for b in call.buffers if isinstance(b, Node)), source)  # or of the call before
                assert source is not None
                row = describe_copy(kernel, source, times)
                self.rows.append({**row, "launches": [len(self.calls) - 1, 1]})
            at += 1
        return made

    def _loop(self, kernel: Repeated, times: Extent) -> None:
        """Adds a loop. Its buffers are live from its first call to its last."""
        loop, body, layout = kernel.loop, kernel.program, self.layout
        outer = [layout.number(n) for n in kernel.sources]
        for k, (inner, source) in enumerate(zip(body.inputs, outer, strict=True)):
            if loop.is_shared(k):
                layout.assign(inner, source)
        outer += self._hoist(kernel.plan, times)
        first, at = len(self.calls), len(self.loops)
        self.loops.append(LoopCalls(first, 0, loop.trips))
        results = {k: layout.number(n) for k, n in kernel.results.items()}
        if loop.blocks > 1:
            layout.begin_blocks()
        windows: list[WindowOffsets] = []
        carried, held = [], []
        for k, (inner, source) in enumerate(zip(body.inputs, outer[: len(body.inputs)], strict=True)):
            blocks = loop.blocks if loop.apart and loop.apart[k] else 1
            if k < loop.carried:
                now = layout.temporary(inner.nbytes)
                added = in_place.accumulates(kernel.plan.kernels, inner, body.outputs[k])
                then = now if added else layout.temporary(inner.nbytes)
                layout.assign(inner, now)
                layout.assign(body.outputs[k], then)
                whole = source, results.get(k, -1)
                if blocks > 1:
                    parts = [(layout.part(n, inner.nbytes) if n >= 0 else n) for n in whole]
                    windows += [(n, 0, 0, inner.nbytes) for n in parts if n >= 0]
                    whole = parts[0], parts[1]
                carried.append((now, then, *whole))
                held += [now, then]
            elif k < loop.carried + len(loop.sliced):
                windows.append(self._window(inner, source, loop.sliced[k - loop.carried], blocks))
            elif blocks > 1:
                windows.append(self._window(inner, source, (0, 0), blocks))
        for k, (inner, rows) in enumerate(zip(body.outputs[loop.carried :], loop.stacked, strict=True), loop.carried):
            if k in results:
                windows.append(self._window(inner, results[k], rows, loop.blocks))
            else:  # unused
                layout.assign(inner, layout.temporary(inner.nbytes))
        self.add(kernel.plan, ext.product([times, loop.trips, loop.blocks]))
        calls = first, max(first, len(self.calls) - 1)
        for call in calls:
            layout.used([*outer, *results.values(), *held], call)
        if loop.blocks > 1:
            windows += layout.end_blocks(loop.blocks, calls)
        self.loops[at] = LoopCalls(
            first, len(self.calls) - first, loop.trips, tuple(windows), tuple(carried), loop.blocks
        )  # fmt: skip

    def _window(self, inner: Node, whole: int, rows: Rows, blocks: int) -> WindowOffsets:
        nbytes = inner.nbytes
        row = ext.mul(nbytes, blocks)
        number = self.layout.window(inner, whole, nbytes)
        return number, ext.mul(row, rows[0]), ext.mul(row, rows[1]), nbytes if blocks > 1 else 0


WindowOffsets = tuple[int, Extent, Extent, Extent]
"""A window of a loop: its buffer, and where it is; see `LoopCalls`."""


class _Layout:
    """Assigns buffers to nodes in memory and to temporaries, and records their live ranges."""

    def __init__(self, program: Program) -> None:
        self.constants = bytearray()
        self._outputs = {n: k for k, n in enumerate(program.results)}
        self._numbers: dict[Node, int] = {}
        self._made: list[tuple[Kind, int, Extent]] = []
        self._life: dict[int, tuple[int, int]] = {}
        self._owners: dict[Node, Node] = {}
        self._blocks: int | None = None

    def share(self, values: Mapping[Node, Node]) -> None:
        """Lets each key share the buffer of its value, which overwrites it."""
        self._owners = dict(values)

    def reusable_output(self, source: Node, target: Node) -> int | None:
        """The number of an output that starts as a copy of an input and could take over its memory."""
        given = source.op is Op.INPUT and not isinstance(source.arg, tuple)
        return self._outputs.get(self._owner(target)) if given else None

    def life(self, node: Node) -> tuple[int, int]:
        """A node's live range: the first and the last call that use it; -1 if none does."""
        return self._life.get(self._numbers.get(self._owner(node), -1), (-1, -1))

    def number(self, node: Node) -> int:
        node = self._owner(node)
        if node not in self._numbers:
            self._numbers[node] = self._add(*self._place(node))
        return self._numbers[node]

    def _owner(self, node: Node) -> Node:
        """The node whose buffer a node shares."""
        while node in self._owners:
            node = self._owners[node]
        return node

    def assign(self, node: Node, number: int) -> None:
        """Assigns a buffer to a node."""
        self._numbers[node] = number

    def window(self, node: Node, whole: int, nbytes: Extent) -> int:
        """Makes the buffer of a node that is a part of another buffer."""
        self._numbers[node] = self._add(Kind.WINDOW, whole, nbytes)
        return self._numbers[node]

    def part(self, whole: int, nbytes: Extent) -> int:
        """Makes a buffer that is a part of another one."""
        return self._add(Kind.WINDOW, whole, nbytes)

    def temporary(self, nbytes: Extent) -> int:
        return self._add(*self._working(nbytes))

    def custom(self, number: int) -> tuple[int, int]:
        """The buffers of a custom kernel's call besides its tensors."""
        return self._add(Kind.CUSTOM, number, 0), self._add(Kind.ERRORS, 0, 0)

    def begin_blocks(self) -> None:
        """Begins a loop in blocks, which run concurrently: each has its own part of the workspace."""
        assert self._blocks is None, "a loop in blocks contains no loops"
        self._blocks = self._add(Kind.WORKSPACE, 0, 0)

    def end_blocks(self, blocks: int, calls: tuple[int, int]) -> list[WindowOffsets]:
        """Lays out a block's workspace; gives its windows. calls: the loop's first and last."""
        arena = self._blocks
        assert arena is not None
        self._blocks = None
        inner = [k for k, (kind, whole, _) in enumerate(self._made) if kind is Kind.WINDOW and whole == arena]
        lives = [Lifetime(ext.evaluate(self._made[k][2], []), *self._life.get(k, calls)) for k in inner]
        plan = place(lives)
        self._made[arena] = Kind.WORKSPACE, 0, plan.total * blocks
        self._life[arena] = calls
        return [(k, offset, 0, plan.total) for k, offset in zip(inner, plan.offsets, strict=True)]

    def _working(self, nbytes: Extent) -> tuple[Kind, int, Extent]:
        return (Kind.WORKSPACE, 0, nbytes) if self._blocks is None else (Kind.WINDOW, self._blocks, nbytes)

    def used(self, numbers: tuple[int, ...] | list[int], call: int) -> None:
        """Extends the live ranges of buffers to a call."""
        for n in numbers:
            first, last = self._life.get(n, (call, call))
            self._life[n] = (min(first, call), max(last, call))

    def buffers(self) -> list[Buffer]:
        return [Buffer(kind, index, n, *self._life.get(k, (0, 0))) for k, (kind, index, n) in enumerate(self._made)]

    def _add(self, kind: Kind, index: int, nbytes: Extent) -> int:
        self._made.append((kind, index, nbytes))
        return len(self._made) - 1

    def _place(self, node: Node) -> tuple[Kind, int, Extent]:
        nbytes = node.nbytes
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
        return self._working(nbytes)
