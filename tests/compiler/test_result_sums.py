"""Sums of a product's columns that its kernel takes, against NumPy in float64 and the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from habana_tf.compiler.body import Reduction
from habana_tf.compiler.codegen.emit import Function
from habana_tf.compiler.codegen.result_sums import ResultSums
from habana_tf.compiler.codegen.tiles import drain
from habana_tf.compiler.codegen.tiles import winograd as winograd_module
from habana_tf.compiler.codegen.tiles.choose import block_plan
from habana_tf.compiler.codegen.tiles.epilogue import CallBuffer, PrefetchLine, StoreResult, SumVector
from habana_tf.compiler.codegen.tiles.program import ContractCode, emit_contract
from habana_tf.compiler.contraction import ContractSpec, canonical, packable
from habana_tf.compiler.point_values import Constant
from habana_tf.hardware.cpu import Target, target
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from tests.compiler import contraction_cases as shapes
from tests.compiler.contraction_cases import BF16, F32, SHAPES, TARGETS, Case, cases, run
from tests.compiler.test_contract_amx import AMX, PACKED, emulate
from tests.compiler.test_contract_amx import CASES as TILES
from tests.effort import quickly


class StoreAndSum:
    """Stores the results, adds up their columns, and the squares of their distances from the mean."""

    def __init__(self, spec: ContractSpec, columns: int, tgt: Target) -> None:
        b = Builder()
        x = b.input((2, columns), F32)
        value, total = Constant(F32, 0.0), b.reduce("sum", x, [0])
        self.results = [total, b.reduce("sum", b.map("neg", x), [0])]
        self.store = StoreResult(canonical(spec), tgt.rounds_to_bf16)
        self.sums = ResultSums([Reduction(value, total), Reduction(value, self.results[1], True)], tgt.rounds_to_bf16)

    @property
    def buffers(self) -> Sequence[CallBuffer]:
        return *self.store.buffers, self.sums.buffer

    def begin(self, fn: Function, pointers: list[str]) -> None:
        self.store.begin(fn, pointers)
        self.sums.begin(pointers[-1])

    def lines(self, fn: Function, p: SumVector) -> list[PrefetchLine]:
        return []

    def vector(self, fn: Function, p: SumVector) -> Sequence[str]:
        self.store.vector(fn, p)
        return p.value, p.value


def check_sums(case: Case, tgt: Target, packed: bool = False, inline: bool | None = None) -> ContractCode | None:
    """Compiles, runs in one piece and in three, compares; None for a result whose columns are not the lanes."""
    last = [k for k, (e, s) in enumerate(zip(case.spec.extents, case.spec.out.strides, strict=True)) if s == 1 < e]
    if len(last) != 1:
        return None
    spec = replace(case.spec, also=(tuple(int(k == last[0]) for k in range(len(case.spec.extents))),))
    c = canonical(spec)
    if c.lane is None or c.lane not in c.n or c.lane.sources != tuple(last):
        return None
    cut = block_plan(c, tgt) if packed and packable(c) else None
    epilogue = StoreAndSum(spec, c.columns, tgt)
    code = emit_contract(spec, tgt, "kernel", epilogue, cut=cut)
    want = case.reference().reshape(-1, c.columns)
    bits = []
    for pieces in (1, 3):
        out = np.zeros(want.size, np.uint16 if spec.out.dtype is BF16 else np.float32)
        found = [np.full(c.columns + 64, 7, np.float32) for _ in epilogue.results]
        buffers: dict[object, Any] = {"a": case.a, "b": case.b, "out": out}
        run(code, tgt, {**buffers, **dict(zip(epilogue.results, found, strict=True))}, pieces)
        assert all((x[c.columns :] == 7).all() for x in found), "wrote past the sums"
        bits.append([out.tobytes(), *(x.tobytes() for x in found)])
    assert bits[0] == bits[1]
    total, squares = (x[: c.columns] for x in found)
    exact = 1e-2 if tgt.tile_engine or spec.a.dtype is BF16 else 1e-5
    np.testing.assert_array_less(np.abs(total - want.sum(0)), exact * np.abs(want).sum(0) + 1e-4)
    about = ((want - want.mean(0)) ** 2).sum(0)
    np.testing.assert_allclose(squares, about, rtol=10 * exact, atol=exact * float((want**2).sum() + 1) / c.columns)
    return code


@settings(max_examples=80, deadline=None)
@given(cases(), st.sampled_from(TARGETS), st.booleans())
def test_any_labels(case: Case, tgt: Target, packed: bool) -> None:
    assume(check_sums(case, tgt, packed) is not None)


SUMMED = [n for n in SHAPES if not n.startswith(("one column", "one row of", "depthwise"))]


@pytest.mark.parametrize("tgt", TARGETS, ids=lambda t: f"{t.llvm_cpu}-{t.bf16_products}")
@pytest.mark.parametrize("dtype", [F32, BF16], ids=lambda x: x.label)
@pytest.mark.parametrize("name", quickly(SUMMED, 3))
def test_shapes_of_networks(name: str, dtype: DType, tgt: Target) -> None:
    assert check_sums(SHAPES[name](dtype), tgt) is not None


@pytest.mark.parametrize("inline", [0, 1_000_000])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["mlp forward", "long odd sum", "filter gradient", "same, positions in one tile"])
def test_written_out_and_in_a_loop(name: str, packed: bool, inline: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "INLINE_EPILOGUE", inline)
    monkeypatch.setattr(drain, "LONG_SUM_EPILOGUE", inline)
    assert check_sums(SHAPES[name](F32), target(), packed) is not None


@pytest.mark.parametrize("rows", [12_000, 6007])
def test_many_rows_are_grouped(rows: int) -> None:
    code = check_sums(shapes.matmul(rows, 40, 64), target())
    assert code is not None and code.plan is not None
    assert 64 <= code.plan.grid <= 120, "a part has rows enough, and there are parts enough"


@pytest.mark.skipif(not target().masked_memory, reason="a CPU with AVX2 or AVX-512 is wanted")
@pytest.mark.parametrize("columns", [16, 36, 200])
@pytest.mark.parametrize("size", [7, 12])
def test_winograd(size: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CHANNELS", "TILES", "SAVED", "WORK"):
        monkeypatch.setattr(winograd_module, f"WINOGRAD_{name}", 1)
    code = check_sums(shapes.padded_convolution(3, size, 32, columns, 3, 1, 1, 1, size, F32), target())
    assert code is not None and code.plan is not None and code.plan.winograd
    gradient = check_sums(shapes.filter_gradient(8, 16, 32, 32, 3), target())
    assert gradient is not None and gradient.plan is not None and not gradient.plan.winograd, "by its definition"


@pytest.mark.skipif(not target().multiplies_bf16_pairs, reason="the rest of the kernel is for AVX-512")
@pytest.mark.parametrize("name", [*TILES, *PACKED])
def test_tile_engine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registers = emulate(monkeypatch)
    code = check_sums({**TILES, **PACKED}[name](), AMX)
    assert code is not None and code.plan is not None and code.plan.amx and not registers.errors
