"""AMX kernels against einsum, on any CPU: the tile instructions are replaced by an emulation in NumPy."""

from __future__ import annotations

import ctypes
import math
import platform
import re
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from habana_tf.compiler.codegen import emit, machine, turns
from habana_tf.compiler.codegen.tiles import block_kernel, products, tile_engine
from habana_tf.compiler.codegen.tiles.choose import plan
from habana_tf.compiler.codegen.tiles.program import ContractCode, emit_contract
from habana_tf.compiler.codegen.tiles.tile_engine import TileRows, configuration, groups
from habana_tf.compiler.contraction import canonical
from habana_tf.hardware.cpu import Isa, Target, host, target
from habana_tf.ir.dtypes import DType
from tests.compiler import contraction_cases as shapes

BF16 = DType.BF16
AMX = Target(Isa.AMX, True, "sapphirerapids", "")

pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="AMX is of x86-64")
needs_pairs = pytest.mark.skipif(not target().multiplies_bf16_pairs, reason="the rest of the kernel is for AVX-512")


class Registers:
    """The tile registers as the instruction set reference has them; what hardware faults on, asserts."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.widths: list[int] = []
        self.data = np.zeros((8, 16, 64), np.uint8)
        self.configured = self.products = 0
        i8, i64, ptr = ctypes.c_int8, ctypes.c_int64, ctypes.c_void_p
        self.functions = {
            "ldtilecfg": ctypes.CFUNCTYPE(None, ptr)(self.ldtilecfg),
            "tilerelease": ctypes.CFUNCTYPE(None)(self.tilerelease),
            "tilezero": ctypes.CFUNCTYPE(None, i8)(self.tilezero),
            "tileloadd64": ctypes.CFUNCTYPE(None, i8, ptr, i64)(self.tileloadd64),
            "tilestored64": ctypes.CFUNCTYPE(None, i8, ptr, i64)(self.tilestored64),
            "tdpbf16ps": ctypes.CFUNCTYPE(None, i8, i8, i8)(self.tdpbf16ps),
        }
        self.errors: list[str] = []

    def check(self, condition: bool, what: str) -> None:
        if not condition:
            self.errors.append(what)

    def ldtilecfg(self, address: int) -> None:
        data = ctypes.string_at(address, 64)
        self.check(data[0] == 1 and not any(data[1:16]), "palette")
        self.widths = list(np.frombuffer(data[16:32], np.uint16))
        self.rows = list(data[48:56])
        self.check(max(self.widths) <= 64 and max(self.rows) <= 16, "configuration")
        self.check(not any(data[32:48]) and not any(data[56:]), "reserved bytes")
        self.check(all((w == 0) == (r == 0) for w, r in zip(self.widths, self.rows, strict=True)), "empty register")
        self.data[:] = 0
        self.configured += 1

    def tilerelease(self) -> None:
        self.check(bool(self.rows), "released without configuration")
        self.rows, self.widths = [], []

    def used(self, *registers: int) -> bool:
        ok = bool(self.rows) and all(self.rows[t] for t in registers)
        self.check(ok, f"registers {registers} are not configured")
        return ok

    def tilezero(self, t: int) -> None:
        if self.used(t):
            self.data[t] = 0

    def tileloadd64(self, t: int, address: int, stride: int) -> None:
        if self.used(t):
            self.data[t] = 0
            for r in range(self.rows[t]):
                line = ctypes.string_at(address + r * stride, int(self.widths[t]))
                self.data[t, r, : self.widths[t]] = np.frombuffer(line, np.uint8)

    def tilestored64(self, t: int, address: int, stride: int) -> None:
        if self.used(t):
            for r in range(self.rows[t]):
                line = self.data[t, r, : self.widths[t]].tobytes()
                ctypes.memmove(address + r * stride, line, len(line))

    def tdpbf16ps(self, sums: int, a: int, b: int) -> None:
        if not self.used(sums, a, b):
            return
        m, k, n = self.rows[sums], self.rows[b], self.widths[sums] // 4
        self.check(self.rows[a] == m and self.widths[a] == 4 * k and self.widths[b] == 4 * n, "shapes of a product")
        left = shapes.from_bf16(self.data[a].view(np.uint16)[:m, : 2 * k].copy()).reshape(m, k, 2)
        right = shapes.from_bf16(self.data[b].view(np.uint16)[:k, : 2 * n].copy()).reshape(k, n, 2)
        total = self.data[sums].view(np.float32)
        with np.errstate(all="ignore"):  # columns past the last one hold anything
            total[:m, :n] += np.einsum("mkp,knp->mn", left, right, dtype=np.float32)
        self.products += 1


def emulate(monkeypatch: pytest.MonkeyPatch) -> Registers:
    """Makes `shapes.run` execute AMX kernels on the emulation, with the host's instructions for the rest."""
    registers = Registers()
    usual = shapes.compile_

    def compile_(code: ContractCode, tgt: Target) -> machine.Loaded:
        imports = {
            f"emulated_{name}": ctypes.cast(function, ctypes.c_void_p).value or 0
            for name, function in registers.functions.items()
        }
        for call in code.calls:
            fn = call.function
            fn.lines = [line.replace("@llvm.x86.t", "@emulated_t").replace("@llvm.x86.ld", "@emulated_ld")
                        for line in fn.lines]  # fmt: skip
            fn.declarations = {
                d.replace("@llvm.x86.t", "@emulated_t").replace("@llvm.x86.ld", "@emulated_ld") for d in fn.declarations
            }
        return usual(code, tgt if tgt is not AMX else target(), imports)

    monkeypatch.setattr(shapes, "compile_", compile_)
    return registers


CASES = {
    "rows of 32": lambda: shapes.matmul(64, 96, 64, dtype=BF16),
    "uneven rows and columns": lambda: shapes.matmul(75, 70, 96, dtype=BF16),
    "14 pairs a step": lambda: shapes.matmul(40, 40, 56, dtype=BF16),
    "one vector": lambda: shapes.matmul(100, 10, 64, dtype=BF16),
    "transposed b": lambda: shapes.matmul(40, 40, 64, tb=True, dtype=BF16),
    "split sum": lambda: shapes.matmul(32, 32, 4096, dtype=BF16),
    "11 wide image": lambda: shapes.convolution(3, 13, 32, 64, 3, 1, 1, BF16),
    "26 wide image": lambda: shapes.convolution(1, 28, 16, 16, 3, 1, 1, BF16),
    "strided": lambda: shapes.convolution(2, 19, 16, 20, 3, 2, 1, BF16),
    "input gradient": lambda: shapes.input_gradient(2, 7, 20, 32, 3, BF16),
}


@needs_pairs
@pytest.mark.parametrize("name", CASES)
def test_products(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registers = emulate(monkeypatch)
    code = CASES[name]().check(AMX)
    assert not registers.errors
    assert code.plan is not None and code.plan.amx
    assert registers.products
    assert not registers.rows, "registers were not released"


@needs_pairs
@pytest.mark.parametrize("rows", [1, 31, 32, 75])
@pytest.mark.parametrize("name", ["product", "image"])
def test_rows_of_symbolic_number(name: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    registers = emulate(monkeypatch)
    made = {"product": lambda: shapes.matmul(rows, 70, 96, dtype=BF16),
            "image": lambda: shapes.convolution(rows, 8, 32, 24, 3, 1, 1, BF16)}  # fmt: skip
    code = made[name]().check(AMX, symbol=0)
    assert not registers.errors
    assert code.plan is not None and code.plan.amx and registers.products
    assert not registers.rows, "registers were not released"


PACKED = {
    "strided a": lambda: shapes.matmul(64, 64, 64, ta=True, dtype=BF16),
    "both strided": lambda: shapes.matmul(75, 70, 101, ta=True, tb=True, dtype=BF16),
    "odd sum": lambda: shapes.matmul(75, 70, 101, dtype=BF16),
    "odd sum, 9 pairs a step": lambda: shapes.matmul(40, 40, 35, dtype=BF16),
    "long sum, 9 pairs a step": lambda: shapes.matmul(40, 40, 18 * 43, ta=True, tb=True, dtype=BF16),
    "sum in blocks": lambda: shapes.matmul(70, 40, 1500, ta=True, dtype=BF16),
    "split sum in blocks": lambda: shapes.matmul(30, 20, 9001, ta=True, dtype=BF16),
    "many rows": lambda: shapes.matmul(600, 40, 48, ta=True, dtype=BF16),
    "filter gradient": lambda: shapes.filter_gradient(4, 13, 32, 40, 3, BF16),
    "filter gradient of a small image": lambda: shapes.filter_gradient(8, 7, 32, 20, 3, BF16),
    "padded convolution": lambda: shapes.padded_convolution(2, 13, 16, 20, 3, 1, 1, 1, 13, BF16),
    "padded and strided": lambda: shapes.padded_convolution(2, 29, 8, 20, 3, 2, 1, 1, 15, BF16),
    "padded, tiny image": lambda: shapes.padded_convolution(5, 3, 8, 33, 3, 1, 1, 1, 3, BF16),
    "padded input gradient": lambda: shapes.padded_convolution(3, 11, 16, 32, 3, 1, 1, 2, 13, BF16, reverse=True),
}


@needs_pairs
@pytest.mark.parametrize("way", ["dot", "widen"])
@pytest.mark.parametrize("name", PACKED)
def test_products_of_packed_operands(name: str, way: Literal["dot", "widen"], monkeypatch: pytest.MonkeyPatch) -> None:
    """What tiles could not read as it lies; they take it whichever other way was measured to be faster."""
    registers = emulate(monkeypatch)
    code = PACKED[name]().check(shapes.told(AMX, way))
    assert not registers.errors
    assert code.plan is not None and code.plan.amx and code.plan.blocks
    assert registers.products and not registers.rows, "registers were not released"


@needs_pairs
@pytest.mark.parametrize("rows", [2, 31, 32, 75])
def test_packed_rows_of_symbolic_number(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    registers = emulate(monkeypatch)
    code = shapes.matmul(rows, 70, 96, ta=True, dtype=BF16).check(AMX, symbol=0)
    assert not registers.errors
    assert code.plan is not None and code.plan.amx and code.plan.blocks and registers.products


@needs_pairs
@pytest.mark.parametrize("name", ["uneven rows and columns", "26 wide image", "split sum"])
def test_blocks_of_a_sum(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of three steps are added up, where blocks usually have many more."""
    registers = emulate(monkeypatch)
    for module in (turns, tile_engine, products):
        monkeypatch.setattr(module, "SUM_STEPS", 3)
    CASES[name]().check(AMX)
    assert not registers.errors and registers.products


@needs_pairs
@pytest.mark.parametrize("name", ["sum in blocks", "split sum in blocks", "filter gradient"])
def test_totals_of_several_blocks_of_packed_operands(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registers = emulate(monkeypatch)
    monkeypatch.setattr(block_kernel, "SUM_STEPS", 20)
    case = PACKED[name]()
    case.check(AMX)
    case.check(AMX, symbol=len(case.spec.extents) - 3 if name == "filter gradient" else None)
    assert not registers.errors and registers.products


@needs_pairs
@pytest.mark.parametrize("packed", [False, pytest.param(True, marks=pytest.mark.rest)])
def test_errors_of_long_sums(packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One addition a step, without the parts that many threads would have: 3125 of them, in blocks. Numbers that are
    all equal are the worst, as in `test_sum_errors`."""
    emulate(monkeypatch)
    k, m = 100_000, 32
    strides = [1, 0, m] if packed else [k, 0, 1]
    case = shapes.Case.make([m, 16, k], strides, [0, 1, 16], [16, 1, 0], BF16, DType.F32)
    a, b = (np.full_like(x, shapes.to_bf16(np.float32(1.7)).item()) for x in (case.a, case.b))
    cut = plan(canonical(case.spec), AMX)
    assert cut.amx and bool(cut.blocks) == packed
    if cut.chunks != 1:
        dims = tuple(d for d in cut.dims if d.kind != "chunk")
        cut = replace(cut, dims=dims, grid_dims=cut.grid_dims - 1)
    out = np.zeros(m * 16, np.float32)
    shapes.run(emit_contract(case.spec, AMX, "kernel", cut=cut), AMX, {"a": a, "b": b, "out": out})
    want = float(shapes.from_bf16(a[:1])[0]) ** 2 * k
    assert np.abs(out / want - 1).max() * 2**24 < 24 * math.log2(k)


def test_registers_are_filled_along_the_label_that_fills_most() -> None:
    """16 images of 5x5: eight pairs of images, not three of pixels; and what a work item copies stays on its stack."""
    code = emit_contract(shapes.filter_gradient(16, 7, 512, 512, 3, BF16).spec, AMX, "kernel")
    assert code.plan is not None and code.plan.amx == 8
    for case in (
        shapes.filter_gradient(16, 7, 512, 512, 3, BF16),
        shapes.matmul(1536, 512, 5 * 501, ta=True, dtype=BF16),
    ):
        (call, *_) = emit_contract(case.spec, AMX, "kernel").calls
        assert sum(int(n) for n in re.findall(r"alloca \[(\d+) x i8\]", call.ir)) < 640 << 10


@pytest.mark.skipif(
    Isa.AMX in host().instruction_sets, reason="this CPU runs the instructions themselves in test_contract"
)
def test_instructions_assemble() -> None:
    """LLVM accepts the intrinsics and gives each its instruction."""
    code = emit_contract(shapes.convolution(3, 13, 32, 64, 3, 1, 1, BF16).spec, AMX, "kernel")
    assembly = machine.assembly(emit.module([call.ir for call in code.calls], set(code.declarations), ""), AMX)
    for instruction in ("ldtilecfg", "tilezero", "tileloadd", "tdpbf16ps", "tilestored", "tilerelease"):
        assert instruction in assembly


def test_groups() -> None:
    assert groups([0, 8, 16]) == [TileRows(0, 3, 8)]
    assert groups([0, 8, 100, 108]) == [TileRows(0, 2, 8), TileRows(100, 2, 8)]
    assert [g.rows for g in groups(list(range(0, 4 * 27, 4)))] == [14, 13]
    with pytest.raises(ValueError, match="do not fit"):
        groups([0, 1, 3, 7, 8, 9])


def test_configuration() -> None:
    data = configuration([TileRows(0, 14, 4), TileRows(56, 13, 4)], 16)
    assert len(data) == 64 and data[0] == 1
    assert list(data[48:56]) == [14, 14, 13, 13, 14, 13, 16, 16]
