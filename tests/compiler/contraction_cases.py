"""Contractions on strided views: drawn ones and those of networks, and what NumPy's einsum makes of them."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from habana_tf.compiler.codegen import emit, machine
from habana_tf.compiler.codegen.tiles.choose import block_plan
from habana_tf.compiler.codegen.tiles.program import ContractCode, emit_contract
from habana_tf.compiler.contraction import ContractSpec, Operand, Padding, accepts_guards, canonical, packable
from habana_tf.hardware.calibration import Products
from habana_tf.hardware.cpu import Isa, Target, host, target
from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType

F32, BF16 = DType.F32, DType.BF16
NARROW = (DType.F8E4M3, DType.F8E5M2, DType.I8, DType.U8)
"""Types of 8 bits."""


@dataclass(frozen=True)
class Told(Target):
    """A target that multiplies bf16 as it is told, not in the way that was measured to be faster."""

    way: Products = "widen"

    @property
    def bf16_products(self) -> Products:
        return self.way


def told(tgt: Target, way: Products) -> Target:
    return Told(tgt.isa, tgt.avx512_bf16, tgt.llvm_cpu, tgt.llvm_features, way)


def targets() -> list[Target]:
    """The host's own target, multiplying bf16 in either way that it has, and each lesser one."""
    levels = {Isa.AVX512: "x86-64-v4", Isa.AVX2: "x86-64-v3", Isa.PORTABLE: "x86-64"}
    found = [target()]
    if target().multiplies_bf16_pairs:
        found = [told(target(), "dot"), told(target(), "widen")]
    if host().architecture == "x86_64":
        found += [Target(isa, False, name, "") for isa, name in levels.items() if isa in host().instruction_sets]
    elif host().isa is not Isa.PORTABLE:
        found.append(Target(Isa.PORTABLE, False, "generic", ""))
    return found


TARGETS = targets()


def compile_(code: ContractCode, tgt: Target, imports: dict[str, int] | None = None) -> machine.Loaded:
    text = emit.module([call.ir for call in code.calls], set(code.declarations), "")
    return machine.Loaded([machine.compile_ir(text, tgt)], [call.name for call in code.calls], tgt, imports)


def run(
    code: ContractCode, tgt: Target, buffers: dict[object, np.ndarray], cuts: int = 3, dims: tuple[int, ...] = ()
) -> None:
    """Runs the calls; each grid is done in `cuts` pieces, last first, as threads might. dims: the symbols' values."""
    if not code.calls:
        return
    loaded = compile_(code, tgt)
    sizes = [ext.evaluate(size, list(dims)) for size in code.temps]
    temps = {("temp", i): np.full(size // 4 + 1, np.nan, np.float32) for i, size in enumerate(sizes)}
    symbols = (ctypes.c_int64 * max(len(dims), 1))(*dims)
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    for call in code.calls:
        function = signature(loaded.address(call.name))
        pointers = (ctypes.c_void_p * len(call.buffers))()
        for i, b in enumerate(call.buffers):
            pointers[i] = {**temps, **buffers}[b].ctypes.data
        grid = ext.evaluate(call.grid, list(dims))
        edges = [grid * i // cuts for i in range(cuts + 1)]
        for begin, end in reversed(list(pairwise(edges))):
            function(ctypes.addressof(pointers), ctypes.addressof(symbols), begin, end)


def to_bf16(x: np.ndarray) -> np.ndarray:
    """float32 to the bits of bfloat16, to nearest even."""
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def stored(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Normally distributed numbers as an operand has them in memory."""
    if dtype is BF16:
        return to_bf16(values)
    return (np.abs(values) if dtype is DType.U8 else values * 40 if dtype is DType.I8 else values).astype(dtype.numpy)


def result_of(dtype: DType) -> DType:
    """The type of the result of operands of a type."""
    return F32 if dtype.bits == 8 else dtype


def padded(operand: Operand, data: np.ndarray, extents: tuple[int, ...]) -> np.ndarray:
    """The operand over all labels: zero outside its guards."""
    axes = [e if s else 1 for e, s in zip(extents, operand.strides, strict=True)]
    index = np.indices(axes, sparse=True)
    offset = sum((i * s for i, s in zip(index, operand.strides, strict=True)), operand.offset)
    inside: np.ndarray = np.ones([1] * len(axes), bool)
    for guard in operand.guards:
        value = sum((i * c for i, c in zip(index, guard.coefs, strict=True)), guard.const)
        inside = inside & (value >= 0) & (value < guard.size)
    return np.broadcast_to(np.where(inside, data[np.clip(offset, 0, data.size - 1)], 0), extents)


@dataclass
class Case:
    """A spec with operands that lie in memory exactly as long as they must be."""

    spec: ContractSpec
    a: np.ndarray
    b: np.ndarray

    @classmethod
    def make(cls, extents: list[int], a: list[int], b: list[int], out: list[int], dtype: DType, result: DType) -> Case:
        """Strides per label; the offsets that negative strides need are added."""
        rng = np.random.default_rng(len(extents) + sum(extents))
        operands, data = [], []
        for strides in (a, b):
            low = sum(s * (e - 1) for s, e in zip(strides, extents, strict=True) if s < 0)
            high = sum(s * (e - 1) for s, e in zip(strides, extents, strict=True) if s > 0)
            operands.append(Operand(dtype, tuple(strides), -low))
            values = rng.standard_normal(high - low + 1).astype(np.float32)
            data.append(stored(values, dtype))
        spec = ContractSpec(tuple(extents), operands[0], operands[1], Operand(result_of(result), tuple(out)))
        return cls(spec, data[0], data[1])

    def reference(self) -> np.ndarray:
        """The result in float64, with one axis per label of the result, in memory order."""
        views, subscripts = [], []
        for operand, data in ((self.spec.a, self.a), (self.spec.b, self.b)):
            wide = (from_bf16(data) if data.dtype == np.uint16 else data).astype(np.float64)
            # Absent labels stay as axes of stride 0, so that a label in neither operand counts too.
            view = np.lib.stride_tricks.as_strided(
                wide[operand.offset :] if operand.offset >= 0 else wide,
                self.spec.extents,
                [8 * s for s in operand.strides],
            )
            views.append(padded(operand, wide, self.spec.extents) if operand.guards else view)
            subscripts.append(list(range(len(self.spec.extents))))
        kept = [i for i, s in enumerate(self.spec.out.strides) if s]
        kept.sort(key=lambda i: -self.spec.out.strides[i])
        return np.einsum(views[0], subscripts[0], views[1], subscripts[1], kept)

    def check(
        self, tgt: Target, symbol: int | None = None, compact: bool = False, packed: bool = False
    ) -> ContractCode:
        """Compiles, runs and compares; the extent of label `symbol` is known at run time only. packed: both operands
        are, where they can be."""
        want = self.reference()
        extents: list[ext.Extent] = list(self.spec.extents)
        dims: tuple[int, ...] = ()
        if symbol is not None:
            dims, extents[symbol] = (self.spec.extents[symbol],), ext.sym(0)
        spec = replace(self.spec, extents=tuple(extents))
        c = canonical(spec)
        cut = block_plan(c, tgt, compact) if packed and packable(c) else None
        code = emit_contract(spec, tgt, "kernel", cut=cut, compact=compact)
        bf16 = self.spec.out.dtype is BF16
        out = np.zeros(want.size + 64, np.uint16 if bf16 else np.float32)
        out[want.size :] = 7
        run(code, tgt, {"a": self.a, "b": self.b, "out": out}, dims=dims)
        assert (out[want.size :] == 7).all(), "wrote past the result"
        got = out[: want.size]
        got = (from_bf16(got) if bf16 else got).reshape(want.shape)
        depth = math.prod(e for e, s in zip(self.spec.extents, self.spec.out.strides, strict=True) if not s)
        scale = max(1.0, math.sqrt(depth))
        np.testing.assert_allclose(got, want, rtol=1e-2 if bf16 else 2e-5, atol=(1e-2 if bf16 else 2e-6) * scale)
        return code


def dense(extents: list[int], order: list[int]) -> list[int]:
    """Row-major strides for the labels of `order` (outermost first), 0 for the others."""
    strides, size = [0] * len(extents), 1
    for i in reversed(order):
        strides[i], size = size, size * extents[i]
    return strides


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kinds = draw(st.lists(st.sampled_from("bmmnnkk"), min_size=1, max_size=6))
    extents = [draw(st.sampled_from([1, 2, 3, 5, 8, 13, 17, 33])) for _ in kinds]
    assume(math.prod(extents) <= 60_000)
    sides = []
    for present in ("bmk", "bnk"):
        order = draw(st.permutations([i for i, kind in enumerate(kinds) if kind in present]))
        strides = dense(extents, list(order))
        for i in order:
            if draw(st.integers(0, 5)) == 0:
                strides[i] = -strides[i]
        if draw(st.booleans()):  # gaps between rows
            strides = [s * 3 if abs(s) > 1 else s for s in strides]
        sides.append(strides)
    out = dense(extents, list(draw(st.permutations([i for i, kind in enumerate(kinds) if kind != "k"]))))
    dtype = draw(st.sampled_from([F32, F32, BF16, *NARROW]))
    return Case.make(extents, sides[0], sides[1], out, dtype, draw(st.sampled_from([F32, dtype])))


def matmul(m: int, n: int, k: int, ta: bool = False, tb: bool = False, dtype: DType = F32) -> Case:
    a = [1, 0, m] if ta else [k, 0, 1]
    b = [0, k, 1] if tb else [0, 1, n]
    return Case.make([m, n, k], a, b, [n, 1, 0], dtype, dtype)


def reversed_weight_gradient(m: int, n: int, k: int, dtype: DType) -> Case:
    return Case.make([m, n, k], [-1, 0, -m], [0, -1, n], [n, 1, 0], dtype, dtype)


def convolution(n: int, h: int, c: int, o: int, k: int, s: int, d: int, dtype: DType = F32) -> Case:
    """NHWC input that is padded already, HWIO filter."""
    oh = (h - (k - 1) * d - 1) // s + 1
    a = [h * h * c, s * h * c, s * c, 0, d * h * c, d * c, 1]
    b = [0, 0, 0, 1, k * c * o, c * o, o]
    extents = [n, oh, oh, o, k, k, c]
    return Case.make(extents, a, b, dense(extents, [0, 1, 2, 3]), dtype, dtype)


def filter_gradient(n: int, h: int, c: int, o: int, k: int, dtype: DType = F32, s: int = 1) -> Case:
    oh = (h - k) // s + 1
    extents = [k, k, c, o, n, oh, oh]
    a = [h * c, c, 1, 0, h * h * c, s * h * c, s * c]
    b = [0, 0, 0, 1, oh * oh * o, oh * o, o]
    return Case.make(extents, a, b, dense(extents, [0, 1, 2, 3]), dtype, dtype)


def input_gradient(n: int, h: int, c: int, o: int, k: int, dtype: DType = F32) -> Case:
    """From the padded gradient of the result; the filter is read backwards."""
    p = h + k - 1
    extents = [n, h, h, c, k, k, o]
    a = [p * p * o, p * o, o, 0, p * o, o, 1]
    b = [0, 0, 0, o, -k * c * o, -c * o, 1]
    return Case.make(extents, a, b, dense(extents, [0, 1, 2, 3]), dtype, dtype)


def padded_convolution(
    n: int, h: int, c: int, o: int, k: int, s: int, d: int, pad: int, out: int, dtype: DType, reverse: bool = False
) -> Case:
    """NHWC input whose padding (`pad` before, what `out` needs after) is not in memory."""
    extents = [n, out, out, o, k, k, c]
    a = (h * h * c, s * h * c, s * c, 0, d * h * c, d * c, 1)
    b = (0, 0, 0, c, -k * c * o, -c * o, 1) if reverse else (0, 0, 0, 1, k * c * o, c * o, o)
    guards = tuple(
        Padding(tuple(s if i == m else d if i == w else 0 for i in range(7)), -pad, h) for m, w in ((1, 4), (2, 5))
    )
    rng = np.random.default_rng(n + h)
    data = []
    for size in (n * h * h * c, k * k * c * o):
        values = rng.standard_normal(size).astype(np.float32)
        data.append(stored(values, dtype))
    offset = (k * k - 1) * c * o if reverse else 0
    spec = ContractSpec(
        tuple(extents),
        Operand(dtype, a, -pad * (h + 1) * c, guards),
        Operand(dtype, b, offset),
        Operand(result_of(dtype), tuple(dense(extents, [0, 1, 2, 3]))),
    )
    assert accepts_guards(spec)
    return Case(spec, *data)


def padded_depthwise(n: int, h: int, c: int, dtype: DType) -> Case:
    extents = [n, h, h, c, 3, 3]
    guards = (Padding((0, 1, 0, 0, 1, 0), -1, h), Padding((0, 0, 1, 0, 0, 1), -1, h))
    case = Case.make(extents, [h * h * c, h * c, c, 1, 0, 0], [0, 0, 0, 1, 3 * c, c], [1] * 6, dtype, dtype)
    a = Operand(dtype, (h * h * c, h * c, c, 1, h * c, c), -(h + 1) * c, guards)
    out = Operand(result_of(dtype), tuple(dense(extents, [0, 1, 2, 3])))
    return Case(ContractSpec(tuple(extents), a, case.spec.b, out), case.a, case.b)


def depthwise(n: int, h: int, c: int, k: int, dtype: DType = F32) -> Case:
    oh = h - k + 1
    extents = [n, oh, oh, c, k, k]
    a = [h * h * c, h * c, c, 1, h * c, c]
    b = [0, 0, 0, 1, k * c, c]
    return Case.make(extents, a, b, dense(extents, [0, 1, 2, 3]), dtype, dtype)


SHAPES = {
    "mlp forward": lambda t: matmul(128, 96, 200, dtype=t),
    "tall weights are packed": lambda t: matmul(70, 520, 300, dtype=t),
    "ten classes": lambda t: matmul(64, 10, 300, dtype=t),
    "weight gradient": lambda t: matmul(200, 65, 33, ta=True, dtype=t),
    "reversed operands": lambda t: reversed_weight_gradient(100, 100, 101, t),
    "input gradient": lambda t: matmul(65, 200, 33, tb=True, dtype=t),
    "ten classes, transposed": lambda t: matmul(65, 10, 50, tb=True, dtype=t),
    "long odd sum": lambda t: matmul(9, 20, 9001, dtype=t),
    "long even sum": lambda t: matmul(30, 20, 9002, dtype=t),
    "long sum, both strided": lambda t: matmul(30, 20, 9002, ta=True, tb=True, dtype=t),
    "one row": lambda t: matmul(1, 100, 70, dtype=t),
    "one column": lambda t: matmul(100, 1, 70, dtype=t),
    "outer product": lambda t: matmul(30, 40, 1, dtype=t),
    "digits conv": lambda t: convolution(4, 28, 1, 32, 3, 1, 1, t),
    "conv": lambda t: convolution(3, 13, 32, 64, 3, 1, 1, t),
    "strided conv": lambda t: convolution(2, 19, 3, 20, 5, 2, 1, t),
    "dilated conv": lambda t: convolution(2, 13, 8, 12, 3, 1, 2, t),
    "digits filter gradient": lambda t: filter_gradient(16, 28, 1, 32, 3, t),
    "filter gradient": lambda t: filter_gradient(8, 13, 32, 64, 3, t),
    "filter gradient, long and strided": lambda t: filter_gradient(13, 23, 128, 80, 2, t, s=2),
    "conv input gradient": lambda t: input_gradient(3, 13, 32, 64, 3, t),
    "same, positions in one tile": lambda t: padded_convolution(2, 11, 16, 40, 3, 1, 1, 1, 11, t),
    "same, positions over tiles": lambda t: padded_convolution(2, 30, 16, 20, 3, 1, 1, 1, 30, t),
    "same, wide filter": lambda t: padded_convolution(1, 20, 8, 20, 7, 1, 1, 3, 20, t),
    "same, strided": lambda t: padded_convolution(2, 29, 8, 20, 3, 2, 1, 1, 15, t),
    "same, dilated": lambda t: padded_convolution(2, 21, 8, 20, 3, 1, 2, 2, 21, t),
    "same, long enough to widen first": lambda t: padded_convolution(4, 24, 32, 32, 3, 1, 1, 1, 24, t),
    "same, tiny image": lambda t: padded_convolution(5, 2, 8, 33, 3, 1, 1, 1, 2, t),
    "input gradient, not padded": lambda t: padded_convolution(3, 11, 64, 32, 3, 1, 1, 2, 13, t, reverse=True),
    "depthwise": lambda t: depthwise(2, 9, 40, 3, t),
    "few columns": lambda t: matmul(70, 3, 150, dtype=t),
    "few columns, long odd sum": lambda t: matmul(17, 3, 9001, dtype=t),
    "few columns, even vectors of a long sum": lambda t: matmul(17, 5, 9216, dtype=t),
    "few columns, weight gradient": lambda t: matmul(75, 5, 90, ta=True, dtype=t),
    "few columns, weight gradient of many rows": lambda t: matmul(304, 7, 1100, ta=True, dtype=t),
    "few columns, strided conv": lambda t: convolution(2, 19, 37, 4, 5, 2, 1, t),
    "few columns, same": lambda t: padded_convolution(2, 11, 40, 3, 3, 1, 1, 1, 11, t),
    "few columns, same, positions over tiles": lambda t: padded_convolution(2, 30, 20, 2, 3, 1, 1, 1, 30, t),
    "one column, same": lambda t: padded_convolution(2, 11, 40, 1, 3, 1, 1, 1, 11, t),
    "one column, few rows": lambda t: matmul(7, 1, 300, dtype=t),
    "one row of dot products": lambda t: matmul(1, 90, 77, tb=True, dtype=t),
}
