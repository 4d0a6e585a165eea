"""From scheduled kernels to modules of LLVM IR: equal functions once, each call with the buffers it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from habana_tf.hardware.cpu import Target

from ..ir import Node
from ..kernels import Call, Code, ContractKernel, Kernel, LoopKernel
from ..reads import reads_of
from ..schedule import Schedule
from .alike import merge, shape
from .emit import module
from .epilogue import emit_contraction, plain
from .loops import emit_loop
from .single import emit_single

FLOAT_BYTES = 4
COPIES = 2
"""Operands of a product that may have to be brought into another form in memory."""


@dataclass(frozen=True)
class Generated:
    """codes: one per kernel; a call's `name` is a function of one of the modules."""

    codes: tuple[Code, ...]
    functions: int


def generate(plan: Schedule, target: Target, add: Callable[[str], None], module_bytes: int) -> Generated:
    """Code for every kernel of a schedule. `add` gets each module (its text), as soon as it has `module_bytes`."""
    lanes = target.vector_bytes // FLOAT_BYTES
    attributes = f'"target-cpu"="{target.llvm_cpu}" "target-features"="{target.llvm_features}"'
    if target.vector_bytes == 64:
        attributes += ' "prefer-vector-width"="512" "min-legal-vector-width"="512"'
    functions = _Functions(add, attributes, module_bytes)
    compact = _one_product(plan)
    codes = []
    for kernel in plan.kernels:
        code = _emit(kernel, plan, target, lanes, compact)
        for call in code.calls:
            functions.add(call, code.declarations)
        codes.append((replace(code, calls=()), len(code.calls)))
    functions.end()
    calls = iter(functions.calls)
    named = [replace(code, calls=tuple(islice(calls, count))) for code, count in codes]
    return Generated(tuple(named), len(functions.names))


class _Functions:
    """The functions of a recipe: equal ones once, alike ones that follow each other merged, in modules of a size."""

    def __init__(self, module: Callable[[str], None], attributes: str, module_bytes: int) -> None:
        self.names: dict[str, str] = {}
        self.calls: list[Call] = []
        self._module, self._attributes, self._most = module, attributes, module_bytes
        self._alike: list[tuple[Call, str, frozenset[str]]] = []
        self._shape = ""
        self._texts: list[str] = []
        self._declarations: set[str] = set()
        self._size = 0

    def add(self, call: Call, declarations: frozenset[str]) -> None:
        """The next call; its function is written once it is known which others are like it."""
        body = call.ir[call.ir.index("(") :]
        form = shape(body).text
        if form != self._shape:
            self._write()
        self._shape = form
        self._alike.append((call, body, declarations))

    def end(self) -> None:
        self._write()
        if self._texts or not self.names:
            self._flush()

    def _write(self) -> None:
        bodies = merge([body for _, body, _ in self._alike])
        for (call, _, declarations), (body, constants) in zip(self._alike, bodies, strict=True):
            name = self.names.get(body)
            if name is None:
                name = self.names[body] = f"k{len(self.names)}"
                self._texts.append(f"define void @{name}{body}")
                self._declarations |= declarations
                self._size += len(body)
            self.calls.append(replace(call, name=name, ir="", constants=constants))
        self._alike = []
        if self._size >= self._most:
            self._flush()

    def _flush(self) -> None:
        self._module(module(self._texts, self._declarations, self._attributes))
        self._texts, self._declarations, self._size = [], set(), 0


def _one_product(plan: Schedule) -> bool:
    """Whether this is a product by itself, as an eager op is. There is nothing that it holds up but its caller, who
    waits for its code too: that is compact."""
    products = [k for k in plan.kernels if isinstance(k, ContractKernel)]
    return len(products) == 1 and plain(products[0]) and len(plan.kernels) <= len(products) + COPIES


def _emit(kernel: Kernel, plan: Schedule, target: Target, lanes: int, compact: bool) -> Code:
    reads = reading_order(kernel, plan)
    if isinstance(kernel, ContractKernel):
        epilogue_reads, _ = reads_of(LoopKernel(kernel.node.shape, stores=kernel.stores), plan.kept, {}, _own(kernel))
        return emit_contraction(
            kernel,
            "k",
            plan.operands[kernel.node],
            [n for n in epilogue_reads if n is not kernel.node],
            target,
            compact,
        )
    nodes = [*reads, *dict.fromkeys(kernel.outputs)]
    memory = {n: k for k, n in enumerate(nodes)}
    if isinstance(kernel, LoopKernel):
        return emit_loop(kernel, "k", memory, nodes, lanes, target.avx512_bf16)
    return emit_single(kernel.node, "k", memory, nodes, lanes, target.avx512_bf16)


def _own(kernel: ContractKernel) -> set[Node]:
    return {kernel.node, *(s.value for s in kernel.stores)}


def reading_order(kernel: Kernel, plan: Schedule) -> Sequence[Node]:
    """The kept nodes a kernel reads and does not compute, in order of first use."""
    reads, _ = reads_of(kernel, plan.kept, plan.operands, set(kernel.outputs))
    return [n for n in reads if n not in kernel.outputs]
