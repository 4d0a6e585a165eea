"""The contraction generator against NumPy's einsum on strided views, for every instruction set the host has."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from habana_tf.compiler import extent as ext
from habana_tf.compiler.codegen import contract_loops, emit, machine
from habana_tf.compiler.codegen.contract import (
    ContractCode,
    ContractSpec,
    Guard,
    Operand,
    accepts_guards,
    emit_contract,
)
from habana_tf.compiler.codegen.contract_point import Point
from habana_tf.compiler.codegen.contract_spec import canonical
from habana_tf.compiler.codegen.contract_tiles import plan
from habana_tf.compiler.dtypes import DType
from habana_tf.compiler.views import Unfit
from habana_tf.hardware.cpu import Isa, Target, host, target

F32, BF16 = DType.F32, DType.BF16


def targets() -> list[Target]:
    """The host's own target and each lesser one."""
    levels = {Isa.AVX512: "x86-64-v4", Isa.AVX2: "x86-64-v3", Isa.PORTABLE: "x86-64"}
    found = [target()]
    if host().architecture == "x86_64":
        found += [Target(isa, False, name, "") for isa, name in levels.items() if isa <= host().isa]
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
            data.append(to_bf16(values) if dtype is BF16 else values)
        spec = ContractSpec(tuple(extents), operands[0], operands[1], Operand(result, tuple(out)))
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

    def check(self, tgt: Target, symbol: int | None = None, compact: bool = False) -> ContractCode:
        """Compiles, runs and compares; the extent of label `symbol` is known at run time only."""
        want = self.reference()
        extents: list[ext.Extent] = list(self.spec.extents)
        dims: tuple[int, ...] = ()
        if symbol is not None:
            dims, extents[symbol] = (self.spec.extents[symbol],), ext.sym(0)
        code = emit_contract(replace(self.spec, extents=tuple(extents)), tgt, "kernel", compact=compact)
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
    dtype = draw(st.sampled_from([F32, F32, BF16]))
    return Case.make(extents, sides[0], sides[1], out, dtype, draw(st.sampled_from([F32, dtype])))


@settings(max_examples=60, deadline=None)
@given(cases(), st.sampled_from(TARGETS), st.booleans())
def test_any_labels(case: Case, tgt: Target, compact: bool) -> None:
    case.check(tgt, compact=compact)


@settings(max_examples=80, deadline=None)
@given(cases(), st.sampled_from(TARGETS), st.data())
def test_any_label_of_symbolic_extent(case: Case, tgt: Target, data: st.DataObject) -> None:
    symbol = data.draw(st.integers(0, len(case.spec.extents) - 1))
    try:
        case.check(tgt, symbol, compact=data.draw(st.booleans()))
    except Unfit:  # an inner label of the sum, or of partial sums
        assume(False)


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


def filter_gradient(n: int, h: int, c: int, o: int, k: int, dtype: DType = F32) -> Case:
    oh = h - k + 1
    extents = [k, k, c, o, n, oh, oh]
    a = [h * c, c, 1, 0, h * h * c, h * c, c]
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
        Guard(tuple(s if i == m else d if i == w else 0 for i in range(7)), -pad, h) for m, w in ((1, 4), (2, 5))
    )
    rng = np.random.default_rng(n + h)
    data = []
    for size in (n * h * h * c, k * k * c * o):
        values = rng.standard_normal(size).astype(np.float32)
        data.append(to_bf16(values) if dtype is BF16 else values)
    offset = (k * k - 1) * c * o if reverse else 0
    spec = ContractSpec(
        tuple(extents),
        Operand(dtype, a, -pad * (h + 1) * c, guards),
        Operand(dtype, b, offset),
        Operand(dtype, tuple(dense(extents, [0, 1, 2, 3]))),
    )
    assert accepts_guards(spec)
    return Case(spec, *data)


def padded_depthwise(n: int, h: int, c: int, dtype: DType) -> Case:
    extents = [n, h, h, c, 3, 3]
    guards = (Guard((0, 1, 0, 0, 1, 0), -1, h), Guard((0, 0, 1, 0, 0, 1), -1, h))
    case = Case.make(extents, [h * h * c, h * c, c, 1, 0, 0], [0, 0, 0, 1, 3 * c, c], [1] * 6, dtype, dtype)
    a = Operand(dtype, (h * h * c, h * c, c, 1, h * c, c), -(h + 1) * c, guards)
    out = Operand(dtype, tuple(dense(extents, [0, 1, 2, 3])))
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
}


# AVX-512 without bf16 products differs from the host's own target in bf16 only.
KINDS = [(d, t) for t in TARGETS for d in (F32, BF16) if d is BF16 or t is TARGETS[0] or t.isa is not Isa.AVX512]


@pytest.mark.parametrize(("dtype", "tgt"), KINDS, ids=lambda x: x.label if isinstance(x, DType) else x.llvm_cpu)
@pytest.mark.parametrize("name", SHAPES)
def test_networks(name: str, dtype: DType, tgt: Target) -> None:
    SHAPES[name](dtype).check(tgt)


@pytest.mark.parametrize("dtype", [F32, BF16], ids=lambda x: x.label)
@pytest.mark.parametrize("name", SHAPES)
def test_networks_in_compact_code(name: str, dtype: DType) -> None:
    """It is right, and never more code than the usual one."""
    case = SHAPES[name](dtype)
    compact = case.check(target(), compact=True)
    usual = emit_contract(case.spec, target(), "kernel")
    assert compact.plan is not None and usual.plan is not None
    assert len("".join(c.ir for c in compact.calls)) <= len("".join(c.ir for c in usual.calls))


def test_compact_code_has_one_form_of_row_tile() -> None:
    """Half the code, for the loss of three rows in a hundred."""
    case = matmul(100, 96, 576)
    tgt = Target(Isa.AVX512, False, "x86-64-v4", "")
    usual, compact = (emit_contract(case.spec, tgt, "kernel", compact=c) for c in (False, True))
    assert usual.plan is not None and len(usual.plan.tiling.sizes) == 2
    assert compact.plan is not None and len(compact.plan.tiling.sizes) == 1 and compact.plan.tiling.overlaps
    assert len(compact.calls[-1].ir) < len(usual.calls[-1].ir) / 2


@pytest.mark.parametrize("rows", [9, 10, 13, 15, 25, 27, 28, 29, 40, 49, 100])
@pytest.mark.parametrize("dtype", [F32, BF16], ids=lambda x: x.label)
def test_rows_computed_twice_are_the_same_twice(rows: int, dtype: DType) -> None:
    for tgt in TARGETS:
        matmul(rows, 40, 70, dtype=dtype).check(tgt, compact=True)


def test_a_product_that_takes_long_is_not_compact() -> None:
    code = emit_contract(matmul(1000, 1000, 1000).spec, target(), "kernel", compact=True)
    assert code.plan is not None and not code.plan.compact


@pytest.mark.parametrize("extents", [[0, 4, 5], [4, 0, 5], [4, 20, 0]])
def test_empty(extents: list[int]) -> None:
    m, n, k = extents
    spec = ContractSpec(tuple(extents), Operand(F32, (k, 0, 1)), Operand(F32, (0, n, 1)), Operand(F32, (n, 1, 0)))
    code = emit_contract(spec, target(), "kernel")
    out = np.full(m * n + 1, 3, np.float32)
    run(code, target(), {"a": np.zeros(1, np.float32), "b": np.zeros(1, np.float32), "out": out})
    assert (out[:-1] == 0).all()
    assert out[-1] == 3


def test_sums_do_not_depend_on_the_cut() -> None:
    """Bit for bit: however the grid is shared among threads, also where the sum itself is split."""
    case = filter_gradient(16, 28, 1, 32, 3)
    code = emit_contract(case.spec, target(), "kernel")
    assert code.plan is not None and code.plan.chunks > 1
    results = []
    for cuts in (1, 2, 7):
        out = np.zeros(9 * 32, np.float32)
        run(code, target(), {"a": case.a, "b": case.b, "out": out}, cuts)
        results.append(out.tobytes())
    assert len(set(results)) == 1


def test_not_finite_stays_where_it_belongs() -> None:
    """The padding of odd pairs must not turn a neighbour's infinity into NaN."""
    case = filter_gradient(3, 8, 32, 64, 2, BF16)
    case.a[0] = 0x7F80  # the first pixel meets only the filter's first element
    code = emit_contract(case.spec, target(), "kernel")
    out = np.zeros(2 * 2 * 32 * 64, np.uint16)
    run(code, target(), {"a": case.a, "b": case.b, "out": out})
    finite = np.isfinite(from_bf16(out).reshape(2, 2, 32, 64))
    assert not finite[0, 0, 0].any()
    finite[0, 0, 0] = True
    assert finite.all()


def test_labels_are_merged() -> None:
    """A 1x1 convolution is one matrix product."""
    c = canonical(convolution(2, 6, 8, 12, 1, 1, 1).spec)
    assert [x.extent for x in (*c.m, *c.n, *c.k)] == [2 * 6 * 6, 12, 8]


def test_the_result_chooses_the_sides() -> None:
    """out[n, m]: the lanes run along m, so a and b change places."""
    c = canonical(Case.make([4, 5, 6], [1, 0, 4], [0, 1, 5], [1, 4, 0], F32, F32).spec)
    assert c.swapped
    assert c.lane is not None and c.lane.extent == 4


@pytest.mark.parametrize("tgt", TARGETS, ids=lambda t: f"{t.isa.name}-{t.llvm_cpu}")
@pytest.mark.parametrize("make", [
    lambda: padded_convolution(2, 28, 1, 32, 3, 1, 1, 1, 28, F32),
    lambda: padded_depthwise(2, 9, 40, F32),
    lambda: padded_depthwise(1, 30, 20, F32),
], ids=["one channel", "depthwise", "wide depthwise"])  # fmt: skip
def test_padding_of_fp32(make: Callable[[], Case], tgt: Target) -> None:
    make().check(tgt)


def test_padding_that_must_be_in_memory() -> None:
    one_channel = padded_convolution(2, 28, 8, 32, 3, 1, 1, 1, 28, BF16).spec
    strides = (*one_channel.a.strides[:6], 28 * 28)
    planes_first = ContractSpec(
        one_channel.extents, Operand(BF16, strides, 0, one_channel.a.guards), one_channel.b, one_channel.out
    )
    assert not accepts_guards(planes_first)
    with pytest.raises(ValueError, match="in memory"):
        emit_contract(planes_first, target(), "kernel")


class ScaleAndBias:
    """relu(sum * 2 + bias), stored twice: a checked use of everything a Point offers."""

    buffers = ("bias", "first", "where")

    def __init__(self, spec: ContractSpec, bias: tuple[int, ...]) -> None:
        self.spec, self.bias = spec, bias

    def begin(self, fn: emit.Function, pointers: list[str]) -> None:
        self.pointers = pointers

    def vector(self, fn: emit.Function, p: Point) -> None:
        assert p.lane_stride(self.bias) == 1
        vector = f"<{p.lanes} x float>"
        for lane in range(p.active):
            x = fn.op(f"extractelement {vector} {p.value}, i32 {lane}")
            b = fn.load("float", fn.offset(self.pointers[0], "float", p.offset(self.bias, lane)), 4)
            y = fn.op(f"fadd float {fn.op(f'fmul float {x}, 2.0')}, {b}")
            out = p.offset(self.spec.out.strides, lane)
            fn.store("float", y, fn.offset(self.pointers[1], "float", out), 4)
            code = "0"
            for label, stride in enumerate(self.spec.out.strides):
                if stride:
                    index = fn.integer("add", p.index(label), lane if stride == 1 else 0)
                    code = fn.integer("add", fn.integer("mul", code, 100), index)
            fn.store("i64", code, fn.offset(self.pointers[2], "i64", out), 8)


@pytest.mark.parametrize("inline", [0, 1_000_000])
@pytest.mark.parametrize("samples", [2, 16])
def test_epilogue(samples: int, inline: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the sum in one piece and split; written out per vector and in a loop over the tile."""
    monkeypatch.setattr(contract_loops, "INLINE", inline)
    case = filter_gradient(samples, 28, 2, 18, 3)
    bias = (0, 0, 0, 1, 0, 0, 0)
    spec = ContractSpec(case.spec.extents, case.spec.a, case.spec.b, case.spec.out, (bias, case.spec.out.strides))
    code = emit_contract(spec, target(), "kernel", ScaleAndBias(spec, bias))
    assert code.plan is not None and (code.plan.chunks > 1) == (samples == 16)
    b = np.arange(18, dtype=np.float32)
    first, where = np.zeros((3, 3, 2, 18), np.float32), np.zeros((3, 3, 2, 18), np.int64)
    run(code, target(), {"a": case.a, "b": case.b, "bias": b, "first": first, "where": where})
    np.testing.assert_allclose(first, case.reference() * 2 + b, rtol=1e-4, atol=1e-3)
    i = np.indices(where.shape)
    np.testing.assert_array_equal(where, ((i[0] * 100 + i[1]) * 100 + i[2]) * 100 + i[3])


def test_an_epilogue_over_merged_labels_must_be_named() -> None:
    case = matmul(8, 8, 8)
    code = case.check(target())
    assert code.calls
    conv = convolution(2, 6, 8, 12, 1, 1, 1).spec
    per_image = (100, 0, 0, 1, 0, 0, 0)
    with pytest.raises(ValueError, match="not affine"):
        emit_contract(conv, target(), "kernel", ScaleAndBias(conv, per_image))


def test_plans_share_work() -> None:
    """Work long enough for threads has items enough for several; bf16 on this target uses dot products."""
    tgt = Target(Isa.AVX512, True, "x86-64-v4", "+avx512bf16")
    for case in (matmul(512, 512, 784), convolution(64, 13, 32, 64, 3, 1, 1), filter_gradient(64, 28, 1, 32, 3)):
        code = emit_contract(case.spec, tgt, "kernel")
        assert max(call.grid for call in code.calls) >= 8
    assert plan(canonical(matmul(128, 512, 784, dtype=BF16).spec), tgt).dot
