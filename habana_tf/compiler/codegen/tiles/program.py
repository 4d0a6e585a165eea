"""Code for CONTRACT: matrix products, convolutions and their gradients over strided operands.

`emit_contract` emits the kernels of a contraction as LLVM IR, in one of these forms:

    [spread a]  [pack b]  main: register tiles -> epilogue
    [spread a]  [pack b]  main: tiles of partial sums; reduce: partial sums in fixed order -> epilogue     (split k)
    [pack b]  main: lanes along the sum or the rows         few columns (see `narrow`), optionally with split k
    pack filter  transform it  main: blocks of tiles -> epilogue           a 3 x 3 convolution by Winograd's algorithm
    main: blocks of partial sums; reduce: in fixed order, transformed back -> epilogue          its filter's gradient

`chosen` gives the plan that is thought to be fastest; `plan_text` writes and reads one. `copies` has the calls that
copy operands, `products` and `block_kernel` those that multiply. Products and sums are fp32 (fused multiply-adds if the
CPU has them); a bf16 result is rounded once.

Invariants: results depend on the spec and the target, never on the number of threads or the grid; nothing outside the
operands' index ranges is read (bf16 pairs are two neighbours that both are in range).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from habana_tf.compiler.codegen.result_sums import ResultSums
from habana_tf.compiler.codegen.tiles.block_kernel import BlockKernel
from habana_tf.compiler.codegen.tiles.choose import plan
from habana_tf.compiler.codegen.tiles.copies import pack_call, reach, spread_call
from habana_tf.compiler.codegen.tiles.epilogue import CallBuffer, Epilogue, StorePartial, StoreResult
from habana_tf.compiler.codegen.tiles.kernel import ContractionCall
from habana_tf.compiler.codegen.tiles.operand import Source, in_place
from habana_tf.compiler.codegen.tiles.plan import Plan, by_winograd, in_groups
from habana_tf.compiler.codegen.tiles.products import TileKernel, chunk_sums
from habana_tf.compiler.codegen.tiles.winograd import winograd
from habana_tf.compiler.codegen.tiles.winograd_gradient import gradient_calls
from habana_tf.compiler.codegen.tiles.winograd_kernels import convolution_calls
from habana_tf.compiler.codegen.vector_memory import F32, PAIRS
from habana_tf.compiler.contraction import Canonical, ContractSpec, accepts_guards, canonical
from habana_tf.hardware.cpu import Target
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent


@dataclass(frozen=True)
class ContractCode:
    """The calls, to be run one after the other; temps: workspace sizes in bytes.

    plan: None for an empty result, which has no calls.
    """

    calls: tuple[ContractionCall, ...]
    temps: tuple[Extent, ...]
    plan: Plan | None

    @property
    def declarations(self) -> frozenset[str]:
        return frozenset(d for call in self.calls for d in call.function.declarations)


def emit_contract(
    spec: ContractSpec, target: Target, name: str, epilogue: Epilogue | None = None, cut: Plan | None = None,
    compact: bool = False, invariant: tuple[bool, ...] = (),
) -> ContractCode:  # fmt: skip
    """Emits the kernels of a contraction. name: prefix of function names; cut: overrides the chosen plan; compact:
    prefer little code (see `choose`); invariant: which operands are loop-invariant."""
    c = canonical(spec)
    if not accepts_guards(spec):
        raise ValueError("contraction: this padding must be in memory (see accepts_guards)")
    if any(x.extent == 0 for x in c.labels() if x.kind != "k"):
        return ContractCode((), (), None)
    once = bool(invariant) and invariant[0 if c.swapped else 1]
    sums = epilogue.sums if epilogue else None
    p = cut or chosen(spec, target, compact, once, bool(sums))
    p = replace(in_groups(p) if sums else p, masks_halves=target.masks_halves, masked_memory=target.masked_memory)
    p = replace(p, float16=target.converts_float16)
    c = p.winograd.c if p.winograd else c
    final = epilogue or StoreResult(c, target.rounds_to_bf16)
    temps, temp = _temporaries(sums)
    names: tuple[CallBuffer, CallBuffer] = ("b", "a") if c.swapped else ("a", "b")
    if p.winograd:
        if p.winograd.gradient:
            calls = gradient_calls(p, name, names, temp, final)
        else:
            calls = convolution_calls(p, name, names, temp, final, once)
        return _summed(ContractCode(tuple(calls), tuple(temps), p), name, sums)
    calls = []
    sources = None if p.blocks else _sources(c, p, name, names, temp, calls, once)
    pieces = None
    if p.chunks != 1:
        pieces = StorePartial(c, len(temps))
        temp(ext.mul(ext.mul(pieces.size, p.chunks), 4))
    if sources:
        calls.append(TileKernel(c, p, name, *sources, pieces or final).emit())
    else:
        calls.append(BlockKernel(c, p, name, names, pieces or final).emit())
    if pieces:
        calls.append(chunk_sums(c, p, f"{name}_sum", pieces, final))
    return _summed(ContractCode(tuple(calls), tuple(temps), p), name, sums)


def chosen(spec: ContractSpec, target: Target, compact: bool = False, once: bool = False, sums: bool = False) -> Plan:
    """The plan that is thought to be fastest. once: b is loop-invariant; sums: the epilogue adds up columns."""
    w = winograd(spec, target, compact)
    if w and not (w.gradient and sums):
        return by_winograd(w)
    return plan(canonical(spec), target, compact and not sums, once)


def _temporaries(sums: ResultSums | None) -> tuple[list[Extent], Callable[[Extent], tuple[str, int]]]:
    """The sizes of temporaries, and a function that adds one. The first one is for column sums, if there are any."""
    temps: list[Extent] = []

    def temp(nbytes: Extent) -> tuple[str, int]:
        temps.append(nbytes)
        return "temp", len(temps) - 1

    if sums:
        sums.buffer = temp(0)
    return temps, temp


def _sources(
    c: Canonical, p: Plan, name: str, names: tuple[CallBuffer, CallBuffer], temp: Callable[[Extent], CallBuffer],
    calls: list[ContractionCall], once: bool,
) -> tuple[Source, Source]:  # fmt: skip
    """How tiles read the operands; adds the calls that copy them to `calls`."""
    a, b = in_place(c, p, "a", names[0]), in_place(c, p, "b", names[1])
    if p.dot and c.k[-1].a == 1 and c.a.dtype is DType.BF16:
        a = replace(a, form=PAIRS)
    elif p.dot or p.widen:
        calls.append(spread_call(c, p, f"{name}_spread", names[0], temp))
        a = Source(PAIRS if p.dot else F32, 4, -reach(c)[0], calls[-1].buffers[1])
    if p.pack == "call":
        calls.append(replace(pack_call(c, p, f"{name}_pack", names[1], temp), once=once))
        b = replace(b, buffer=calls[-1].buffers[1])
    if p.pack != "none":
        b = replace(b, form=PAIRS if p.dot else F32)
    return a, b


def _summed(code: ContractCode, name: str, sums: ResultSums | None) -> ContractCode:
    """Adds the call that combines the parts of the epilogue's column sums. Their buffer is the first temporary, whose
    size is known once the product's kernel is emitted."""
    if not sums:
        return code
    total = sums.total(f"{name}_total")
    call = ContractionCall(total.function, (sums.buffer, *total.results), total.grid, total.grain)
    return replace(code, calls=(*code.calls, call), temps=(sums.nbytes, *code.temps[1:]))
