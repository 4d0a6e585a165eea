"""Program to recipe: rewrite, schedule, generate, compile, and lay out the buffers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from habana_tf.hardware.cpu import Target

from ..ir import extent as ext
from ..ir.extent import Extent
from ..ir.interpreter import evaluate
from ..ir.primitives import Node, Op, Program
from . import in_place
from .codegen.generate import generate
from .codegen.objects import MODULE_BYTES, Objects
from .describe import describe
from .recipe import Buffer, KernelCall, Kind, Recipe
from .rewrite import rewrite
from .schedule import schedule


def compile_program(program: Program, name: str, target: Target) -> Recipe:
    """The recipe of a program. Raises views.Unfit for one that code generation cannot take."""
    outputs = [(n.dtype, n.shape) for n in program.outputs]
    program = rewrite(program)
    plan = schedule(program)
    with Objects(target) as objects:
        generated = generate(plan, target, objects.add, MODULE_BYTES)
        code = objects.finish()
    layout = _Layout(program)
    spared = in_place.joined(program, plan.kernels, generated.codes)
    layout.join(spared)
    copies = []
    made: list[KernelCall] = []
    kernels = []
    for kernel, explained in zip(generated.codes, plan.kernels, strict=True):
        first = len(made)
        temps = [layout.temporary(n) for n in kernel.temps]
        copied = in_place.copied(explained)
        calls = () if copied is not None and copied[0] in spared else kernel.calls
        for call in calls:
            if call.grid == 0:
                continue
            numbers = tuple(temps[b[1]] if isinstance(b, tuple) else layout.number(b) for b in call.buffers)
            layout.used(numbers, len(made))
            if copied is not None and len(calls) == 1 and (output := layout.taken_over(*copied)) is not None:
                copies.append((len(made), copied[0], output))
            made.append(KernelCall(call.name, numbers, call.grid, call.grain, call.constants))
        layout.used(temps, len(made) - 1)
        kernels.append({**describe(explained), "launches": [first, len(made) - first]})
    return Recipe(
        name,
        made,
        layout.buffers(),
        outputs,
        list(program.states),
        bytes(layout.constants),
        code,
        kernels,
        [(at, int(source.arg), output) for at, source, output in copies if layout.uses(source) == 1],
        conditions=program.conditions,
    )


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
