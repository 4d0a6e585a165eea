"""From scheduled kernels to modules of LLVM IR: equal functions once, each call with the buffers it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from habana_tf.hardware.cpu import Target

from ..ir import Node
from ..kernels import Code, ContractKernel, Kernel, LoopKernel
from ..reads import reads_of
from ..schedule import Schedule
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
    names: dict[str, str] = {}
    texts: list[str] = []
    declarations: set[str] = set()
    size = 0
    codes: list[Code] = []
    compact = _one_product(plan)
    for kernel in plan.kernels:
        code = _emit(kernel, plan, target, lanes, compact)
        declarations |= code.declarations
        calls = []
        for call in code.calls:
            body = call.ir[call.ir.index("(") :]
            name = names.get(body)
            if name is None:
                name = names[body] = f"k{len(names)}"
                texts.append(f"define void @{name}{body}")
                size += len(body)
            calls.append(replace(call, name=name, ir=""))
        codes.append(replace(code, calls=tuple(calls)))
        if size >= module_bytes:
            add(module(texts, declarations, attributes))
            texts, declarations, size = [], set(), 0
    if texts or not names:
        add(module(texts, declarations, attributes))
    return Generated(tuple(codes), len(names))


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
